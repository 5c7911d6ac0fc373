//! Compiles and runs the example that `docs/contributing.md` shows.

#[path = "../examples/setting.rs"]
mod setting;

#[test]
fn a_setting_is_added_in_one_file() {
    setting::main().unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/contributing.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&format!("```rust\n{}```\n", include_str!("../examples/setting.rs"))));
}
