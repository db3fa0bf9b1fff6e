//! File semantics without `fuser`: what each operation means and which errno it answers.
