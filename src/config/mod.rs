//! From typed arguments to one resolved, validated, immutable configuration.
