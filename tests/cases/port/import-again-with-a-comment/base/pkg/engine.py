import os
import sys

import pkg.base
import pkg.kernels
from pkg.plan import stages

VALUE = os.sep
