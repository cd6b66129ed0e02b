//! Floor 4: PyO3 classes, conversion and GIL policy, nothing else.
