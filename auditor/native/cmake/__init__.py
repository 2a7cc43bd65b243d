"""CMake files, read and run three-valued without CMake."""
