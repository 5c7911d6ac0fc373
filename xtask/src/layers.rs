//! The layers of the workspace: which crate may use which. ARCHITECTURE.md gives the reasons.

use crate::process;
use serde_json::Value;

/// Every package, from the lowest layer to the highest, with the packages of this workspace on which it may
/// depend. `exec` and `net` are observed, `monitor` observes: they share bytes through `space`, never code.
const LAYERS: &[(&str, &[&str])] = &[
    ("thalweg-glob", &[]),
    // This crate serves only tests and benchmarks.
    ("thalweg-chance", &[]),
    ("thalweg-space-derive", &[]),
    ("thalweg-space", &["thalweg-glob", "thalweg-space-derive"]),
    ("thalweg-writers", &["thalweg-space"]),
    ("thalweg-probe-derive", &[]),
    ("thalweg-probe", &["thalweg-space", "thalweg-probe-derive"]),
    ("thalweg-probe-tracing", &["thalweg-probe"]),
    ("thalweg-pack", &["thalweg-glob"]),
    ("thalweg-attach", &["thalweg-glob"]),
    ("thalweg-box", &[]),
    ("thalweg-link", &[]),
    ("thalweg-exec", &["thalweg-space"]),
    ("thalweg-net", &["thalweg-space", "thalweg-pack", "thalweg-box", "thalweg-exec"]),
    ("thalweg-scope", &["thalweg-glob", "thalweg-space", "thalweg-pack"]),
    ("thalweg-monitor", &["thalweg-space", "thalweg-scope"]),
    ("thalweg-view", &["thalweg-monitor"]),
    ("thalweg-tune", &["thalweg-space", "thalweg-pack", "thalweg-attach", "thalweg-monitor"]),
    // Only the following crates may use crates of both sides.
    (
        "thalweg-host",
        &[
            "thalweg-glob",
            "thalweg-space",
            "thalweg-pack",
            "thalweg-box",
            "thalweg-exec",
            "thalweg-net",
            "thalweg-scope",
            "thalweg-monitor",
        ],
    ),
    (
        "thalweg-node",
        &["thalweg-glob", "thalweg-space", "thalweg-link", "thalweg-exec", "thalweg-net", "thalweg-host"],
    ),
    (
        "thalweg",
        &[
            "thalweg-glob",
            "thalweg-space",
            "thalweg-writers",
            "thalweg-pack",
            "thalweg-attach",
            "thalweg-probe",
            "thalweg-box",
            "thalweg-exec",
            "thalweg-net",
            "thalweg-scope",
            "thalweg-monitor",
            "thalweg-tune",
            "thalweg-view",
            "thalweg-host",
            "thalweg-link",
            "thalweg-node",
        ],
    ),
    ("app-des", &["thalweg-box"]),
    ("app-audio", &["thalweg-box"]),
    ("app-ant", &["thalweg-box"]),
    ("app-mc", &["thalweg-box"]),
    ("app-rt", &["thalweg-box"]),
    ("xtask", &["thalweg-chance", "thalweg-space", "thalweg-writers"]),
];

fn metadata() -> Value {
    process::metadata(&["--no-deps"]).expect("cargo describes the workspace")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().expect("a string")
}

fn position(name: &str) -> Option<usize> {
    LAYERS.iter().position(|(layer, _)| *layer == name)
}

#[test]
fn crates_depend_only_on_earlier_ones() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    for package in packages {
        let name = text(package, "name");
        let (_, allowed) = LAYERS.iter().find(|(layer, _)| *layer == name).unwrap_or_else(|| {
            panic!("`{name}` has no layer: add it to xtask/src/layers.rs and ARCHITECTURE.md")
        });
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let used = text(dependency, "name");
            let ours = LAYERS.iter().any(|(layer, _)| *layer == used);
            // A test may use any crate of a lower layer than its own crate: the tests of an app, for example,
            // run the app's network.
            if ours && dependency["kind"] == "dev" {
                assert!(
                    position(used) < position(name),
                    "`{name}` tests with `{used}`, which stands after it"
                );
                continue;
            }
            assert!(
                !ours || allowed.contains(&used),
                "`{name}` may not depend on `{used}` (ARCHITECTURE.md)"
            );
        }
    }
    assert_eq!(packages.len(), LAYERS.len(), "a layer without a package, or one listed twice");
}

#[test]
fn allowed_dependencies_point_backwards() {
    for (index, (name, allowed)) in LAYERS.iter().enumerate() {
        for used in *allowed {
            assert!(
                LAYERS[..index].iter().any(|(layer, _)| layer == used),
                "`{name}` is allowed `{used}`, which stands after it"
            );
        }
    }
}

#[test]
fn members_stand_in_layer_order() {
    let metadata = metadata();
    let manifest = std::fs::read_to_string(process::root().join("Cargo.toml")).expect("the root manifest");
    let members: Vec<&str> = manifest
        .lines()
        .skip_while(|line| !line.starts_with("members"))
        .skip(1)
        .take_while(|line| !line.starts_with(']'))
        .map(|line| line.trim().trim_matches([',', '"']))
        .collect();
    let folders: Vec<String> = LAYERS
        .iter()
        .map(|(name, _)| {
            let package = metadata["packages"]
                .as_array()
                .expect("packages")
                .iter()
                .find(|package| text(package, "name") == *name)
                .expect("every layer is a package");
            let manifest = std::path::Path::new(text(package, "manifest_path"));
            let folder = manifest.parent().expect("a folder");
            folder.strip_prefix(process::root()).expect("inside the workspace").display().to_string()
        })
        .collect();
    assert_eq!(members, folders);
}
