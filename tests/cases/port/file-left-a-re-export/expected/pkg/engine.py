"""Moved to pkg.core.engine."""

from pkg.core.engine import *
