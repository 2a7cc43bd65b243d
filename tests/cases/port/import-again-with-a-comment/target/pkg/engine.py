import os
import sys

import pkg.base
from pkg.plan import stages

VALUE = os.sep
