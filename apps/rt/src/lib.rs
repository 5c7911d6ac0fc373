//! A ray tracer: the boxes of `rt.snet`.
//!
//! ```
//! use app_rt::scene::{Scene, made};
//!
//! let picture = Scene::parse(&made(7))?.picture(160, 120);
//! assert!(picture.starts_with(b"P6\n160 120\n255\n"));
//! # Ok::<(), String>(())
//! ```
#![deny(unsafe_code)]

pub mod scene;
mod trace;
pub mod vector;
#[allow(unsafe_code, reason = "the table is found by its unmangled name")]
mod exported {
    use super::{deal, solve};

    thalweg_box::library! {
        "box deal ((<scenes>, <solvers>) -> (<token>) | (scene, name, <number>) | (<number>))" => deal,
        "box solve ((scene, <width>, <height>) -> (data))" => solve,
    }
}

pub use exported::{thalweg_box_entries, thalweg_boxes};

use scene::Scene;
use thalweg_box::{Out, Text, Variant};

/// The maximal side of a picture in pixels; such a picture takes 300 MB.
const SIDE_MAX: i64 = 10_000;

/// Emits a token for each solver, the scenes, and finally a number without a scene for each solver, which
/// removes the solver's token.
fn deal(scenes: i64, solvers: i64, out: &mut Out) -> Result<(), String> {
    if scenes < 0 || solvers < 1 {
        return Err(format!("{scenes} scenes for {solvers} solvers: there must be one solver at least"));
    }
    out.generate((0..solvers).map(|token| Variant(1, (token,))));
    out.generate((0..scenes).map(|number| {
        let scene = scene::made(number.cast_unsigned());
        Variant(2, (scene, format!("{number:03}.ppm"), number))
    }));
    out.generate((0..solvers).map(move |closing| Variant(3, (scenes + closing,))));
    Ok(())
}

/// The picture of a scene.
fn solve(scene: Text, width: i64, height: i64, out: &mut Out) -> Result<(), String> {
    let side = |pixels: i64| (1..=SIDE_MAX).contains(&pixels).then_some(pixels as u32);
    let (Some(width), Some(height)) = (side(width), side(height)) else {
        return Err(format!("a picture of {width} × {height} pixels: from 1 to {SIDE_MAX} can be made"));
    };
    out.emit((Scene::parse(scene.as_str())?.picture(width, height),));
    Ok(())
}
