import os
import sys

VALUE = os.sep
