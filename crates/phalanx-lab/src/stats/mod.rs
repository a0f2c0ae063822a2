//! Statistics of timings. Knows numbers only: nothing here measures, reads or prints.
