import os
import re
import shutil
import sys

VALUE = os.sep
TOOL = shutil.which("cc")
PATTERN = re.compile("a")
