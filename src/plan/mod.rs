//! Pure: from a NetCDF schema and the encoding options to the arrays to write. No I/O.
