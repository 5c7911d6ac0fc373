//! Scenes as text and in numbers, and a generator of scenes.
//!
//! A scene is a text with one body a line; text after a `#` is a comment. Colours go from 0 to 1.
//!
//! ```text
//! camera    0 2 -8   0 1 0   45             where it stands, what it looks at, its angle in degrees from left to right
//! sky       0.5 0.7 0.9                     the colour of what is far away
//! light     5 8 -6   0.9                    where, how bright
//! plane     0 1 0   0   0.6 0.6 0.5   0.1   the way out of it, how far from the origin; colour; how much it mirrors
//! sphere    0 1 0   1   0.9 0.2 0.1   0.3   centre, radius; colour; how much it mirrors
//! triangle  0 0 0   1 0 0   0 1 0   0.2 0.4 0.8   0.0   corners; colour; how much it mirrors
//! ```

use crate::vector::Vector;
use std::fmt::Write;

/// A scene.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// The camera.
    pub camera: Camera,
    /// The colour of rays that hit no body.
    pub sky: Vector,
    /// The sources of light.
    pub lights: Vec<Light>,
    /// The bodies.
    pub things: Vec<Thing>,
}

/// The camera.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Camera {
    /// The camera's position.
    pub at: Vector,
    /// The point in the middle of the picture.
    pub towards: Vector,
    /// The horizontal angle of view, in degrees.
    pub angle_degrees: f64,
}

/// A point that shines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Light {
    /// The light's position.
    pub at: Vector,
    /// The light's brightness from 0 to 1.
    pub brightness: f64,
}

/// A body with its surface.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thing {
    /// The body's form.
    pub shape: Shape,
    /// The body's colour.
    pub colour: Vector,
    /// The mirrored share of the body's colour, from 0 to 1.
    pub mirror: f64,
}

/// The form of a body.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// The sphere of all points at one distance from a centre.
    Sphere {
        /// The centre of the sphere.
        centre: Vector,
        /// The distance of the points from the centre.
        radius: f64,
    },
    /// The plane of all points x with `normal · x = distance`.
    Plane {
        /// The normal, of length 1.
        normal: Vector,
        /// The distance from the origin along the normal.
        distance: f64,
    },
    /// The triangle between three corners.
    Triangle {
        /// A corner.
        corner: Vector,
        /// The vectors from the first corner to the other two corners.
        edges: [Vector; 2],
    },
}

impl Scene {
    /// Reads the text of a scene.
    ///
    /// # Errors
    /// The number of the first invalid line, or what the scene lacks.
    pub fn parse(text: &str) -> Result<Scene, String> {
        let (mut camera, mut sky) = (None, Vector::default());
        let (mut lights, mut things) = (Vec::new(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            let line = line.split_once('#').map_or(line, |(line, _)| line);
            let Some((word, numbers)) = words(line).map_err(|why| format!("line {}: {why}", index + 1))?
            else {
                continue;
            };
            let point = |at: usize| Vector(numbers[at], numbers[at + 1], numbers[at + 2]);
            let thing = |shape, at| Thing { shape, colour: point(at), mirror: numbers[at + 3] };
            match (word, numbers.len()) {
                ("camera", 7) => {
                    camera = Some(Camera { at: point(0), towards: point(3), angle_degrees: numbers[6] });
                }
                ("sky", 3) => sky = point(0),
                ("light", 4) => lights.push(Light { at: point(0), brightness: numbers[3] }),
                ("sphere", 8) => {
                    things.push(thing(Shape::Sphere { centre: point(0), radius: numbers[3] }, 4));
                }
                ("plane", 8) => {
                    things.push(thing(Shape::Plane { normal: point(0).unit(), distance: numbers[3] }, 4));
                }
                ("triangle", 13) => {
                    let edges = [point(3) - point(0), point(6) - point(0)];
                    things.push(thing(Shape::Triangle { corner: point(0), edges }, 9));
                }
                (word, count) => {
                    return Err(format!(
                        "line {}: there is no `{word}` with {count} numbers; a scene has camera (7), sky (3), light (4), sphere (8), \
                         plane (8), triangle (13)",
                        index + 1
                    ));
                }
            }
        }
        let camera = camera.ok_or("the scene has no camera: a line such as `camera 0 2 -8 0 1 0 45`")?;
        Ok(Scene { camera, sky, lights, things })
    }
}

/// The first word of a line, and its numbers; `None` for an empty line.
fn words(line: &str) -> Result<Option<(&str, Vec<f64>)>, String> {
    let mut words = line.split_whitespace();
    let Some(word) = words.next() else { return Ok(None) };
    let number = |word: &str| match word.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(format!("`{word}` is no number")),
    };
    Ok(Some((word, words.map(number).collect::<Result<_, _>>()?)))
}

/// The text of scene number `number`: balls on a floor around a pyramid. Each number gives a different but
/// reproducible scene; some take many times as long as others.
pub fn made(number: u64) -> String {
    let mut random = Random(number.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed);
    let mut text = String::new();
    let mut line = |word: &str, numbers: &[f64]| {
        text.push_str(word);
        numbers.iter().for_each(|number| write!(text, " {number:.3}").expect("a text takes all"));
        text.push('\n');
    };
    line("camera", &[random.between(-4.0, 4.0), random.between(1.5, 4.0), -9.0, 0.0, 1.0, 0.0, 50.0]);
    line("sky", &[0.55, 0.7, random.between(0.8, 1.0)]);
    for _ in 0..1 + random.below(3) {
        line(
            "light",
            &[random.between(-8.0, 8.0), random.between(6.0, 10.0), random.between(-9.0, -3.0), 0.7],
        );
    }
    line("plane", &[0.0, 1.0, 0.0, 0.0, 0.5, 0.5, 0.45, 0.15]);
    for side in 0..4 {
        let corner = |turn: i32| (f64::from(turn % 2 * 2 - 1), f64::from(turn / 2 * 2 - 1));
        let ring = [0, 1, 3, 2, 0].map(corner);
        let ((x, z), (next_x, next_z)) = (ring[side], ring[side + 1]);
        line("triangle", &[x, 0.0, z, next_x, 0.0, next_z, 0.0, 2.2, 0.0, 0.85, 0.7, 0.3, 0.1]);
    }
    for _ in 0..2 + random.below(30) {
        let radius = random.between(0.2, 0.7);
        let (x, z) = (random.between(-5.0, 5.0), random.between(-3.0, 6.0));
        let [red, green, blue, mirror] = std::array::from_fn(|_| random.between(0.1, 0.9));
        line("sphere", &[x, radius, z, radius, red, green, blue, mirror * 0.6]);
    }
    text
}

/// Pseudo-random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_is_read_with_its_remarks() {
        let scene =
            Scene::parse("camera 0 1 -5 0 0 0 60 # here\n\n# nothing\nsphere 1 2 3 4 0.1 0.2 0.3 0.4\n");
        let scene = scene.expect("a scene");
        let shape = Shape::Sphere { centre: Vector(1.0, 2.0, 3.0), radius: 4.0 };
        assert_eq!(scene.things, [Thing { shape, colour: Vector(0.1, 0.2, 0.3), mirror: 0.4 }]);
        assert_eq!(scene.camera.angle_degrees, 60.0);
    }

    #[test]
    fn a_wrong_scene_is_reported_with_its_line() {
        for (text, why) in [
            ("sky 0 0 0", "no camera"),
            ("camera 0 1 -5 0 0 0 60\nsphere 1 2", "line 2: there is no `sphere` with 2 numbers"),
            ("camera 0 1 -5 0 0 0 wide", "line 1: `wide` is no number"),
            ("camera 0 1 -5 0 0 0 inf", "line 1: `inf` is no number"),
            ("cube 1", "line 1: there is no `cube` with 1 numbers"),
        ] {
            let error = Scene::parse(text).expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn made_scenes_can_be_read_and_differ() {
        let scenes: Vec<Scene> =
            (0..100).map(|number| Scene::parse(&made(number)).expect("a scene")).collect();
        assert!(scenes.windows(2).all(|pair| pair[0] != pair[1]));
        let sizes = || scenes.iter().map(|scene| scene.things.len());
        assert!(sizes().min() < Some(10) && sizes().max() > Some(30), "easy ones and hard ones");
    }
}
