import os
import sys

import pkg.base
import pkg.kernels  # registers them
from pkg.plan import stages

VALUE = os.sep
