//! The `replex` command.
fn main() {}
