import os
import shutil
import sys

VALUE = os.sep
TOOL = shutil.which("cc")
