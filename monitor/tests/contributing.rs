//! Compiles and runs the example of `docs/contributing.md`, and checks that the page shows the same code.

#[path = "../examples/kind.rs"]
mod kind;

#[test]
fn a_kind_of_event_is_declared_written_and_shown() {
    kind::main().unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/contributing.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&format!("```rust\n{}```\n", include_str!("../examples/kind.rs"))));
}
