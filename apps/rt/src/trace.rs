//! The ray tracer: follows each ray of light backwards, from the eye to its origin (Whitted, An Improved
//! Illumination Model for Shaded Display, 1980).

use crate::scene::{Light, Scene, Shape, Thing};
use crate::vector::Vector;

/// The maximal number of mirrors on the path of a ray.
const MIRRORS_MAX: u32 = 4;
/// The number of rays of a pixel along each of its sides.
const RAYS_A_SIDE: u32 = 2;
/// A hit closer than this is on the body from which the ray starts.
const NEAR: f64 = 1e-6;
/// The brightness of ambient light.
const AMBIENT: f64 = 0.15;

/// A ray from a point, with a direction of length 1.
#[derive(Clone, Copy)]
struct Ray {
    from: Vector,
    along: Vector,
}

impl Ray {
    fn at(&self, distance: f64) -> Vector {
        self.from + self.along * distance
    }
}

impl Scene {
    /// The scene as a picture in the format PPM (binary), `size` pixels wide and high.
    pub fn picture(&self, width: u32, height: u32) -> Vec<u8> {
        let mut picture = format!("P6\n{width} {height}\n255\n").into_bytes();
        let film = Film::new(self, width, height);
        for row in 0..height {
            for column in 0..width {
                let Vector(red, green, blue) = self.pixel(&film, column, row);
                picture.extend(
                    [red, green, blue].map(|part| (part.clamp(0.0, 1.0).sqrt() * 255.0).round() as u8),
                );
            }
        }
        picture
    }

    /// The colour of a pixel: the mean of its rays.
    fn pixel(&self, film: &Film, column: u32, row: u32) -> Vector {
        let mut sum = Vector::default();
        for ray in 0..RAYS_A_SIDE * RAYS_A_SIDE {
            let within = |part: u32| (f64::from(part) + 0.5) / f64::from(RAYS_A_SIDE);
            let (x, y) = (within(ray % RAYS_A_SIDE), within(ray / RAYS_A_SIDE));
            sum = sum + self.seen(film.ray(f64::from(column) + x, f64::from(row) + y), MIRRORS_MAX);
        }
        sum * (1.0 / f64::from(RAYS_A_SIDE * RAYS_A_SIDE))
    }

    /// The colour that is seen along a ray, through at most this many mirrors.
    fn seen(&self, ray: Ray, mirrors: u32) -> Vector {
        let Some((distance, thing)) = self.nearest(ray) else { return self.sky };
        let at = ray.at(distance);
        let normal = thing.shape.normal(at);
        // The normal is turned to the side that faces the ray.
        let normal = if normal.dot(ray.along) > 0.0 { -normal } else { normal };
        let light = self.lights.iter().map(|light| self.lit(*light, at, normal, ray.along));
        let (diffuse, shine) = light.fold((AMBIENT, 0.0), |sum, light| (sum.0 + light.0, sum.1 + light.1));
        let own = thing.colour * diffuse + Vector(1.0, 1.0, 1.0) * shine;
        if thing.mirror == 0.0 || mirrors == 0 {
            return own;
        }
        let back = Ray { from: at, along: ray.along.reflected(normal) };
        own * (1.0 - thing.mirror) + self.seen(back, mirrors - 1) * thing.mirror
    }

    /// The brightness of a light at a point: diffuse (Lambert), and as a highlight (Phong). The brightness in
    /// a shadow is 0.
    fn lit(&self, light: Light, at: Vector, normal: Vector, along: Vector) -> (f64, f64) {
        let way = light.at - at;
        let towards = way.unit();
        let facing = normal.dot(towards);
        if facing <= 0.0 || self.is_shaded(Ray { from: at, along: towards }, way.length()) {
            return (0.0, 0.0);
        }
        let shine = along.reflected(normal).dot(towards).max(0.0).powi(32);
        (light.brightness * facing, light.brightness * shine * 0.5)
    }

    fn is_shaded(&self, ray: Ray, light_distance: f64) -> bool {
        let mut hits = self.things.iter().filter_map(|thing| thing.shape.hit(ray));
        hits.any(|distance| distance < light_distance)
    }

    fn nearest(&self, ray: Ray) -> Option<(f64, &Thing)> {
        let hits = self.things.iter().filter_map(|thing| Some((thing.shape.hit(ray)?, thing)));
        hits.min_by(|one, other| one.0.total_cmp(&other.0))
    }
}

impl Shape {
    /// The distance along the ray to the first hit.
    fn hit(&self, ray: Ray) -> Option<f64> {
        let distance = match *self {
            Shape::Sphere { centre, radius } => sphere_distance(ray, centre, radius)?,
            Shape::Plane { normal, distance } => (distance - normal.dot(ray.from)) / normal.dot(ray.along),
            Shape::Triangle { corner, edges } => triangle_distance(ray, corner, edges)?,
        };
        (distance > NEAR && distance.is_finite()).then_some(distance)
    }

    /// The normal at a point of the shape.
    fn normal(&self, at: Vector) -> Vector {
        match *self {
            Shape::Sphere { centre, .. } => (at - centre).unit(),
            Shape::Plane { normal, .. } => normal,
            Shape::Triangle { edges: [one, other], .. } => one.cross(other).unit(),
        }
    }
}

/// The distance to the nearer point where the ray enters or leaves the sphere, unless it lies behind the
/// ray's origin.
fn sphere_distance(ray: Ray, centre: Vector, radius: f64) -> Option<f64> {
    let way = centre - ray.from;
    let middle = way.dot(ray.along);
    let half = (radius * radius - way.dot(way) + middle * middle).sqrt();
    let (near, far) = (middle - half, middle + half);
    // If `half` is not a number, all comparisons are false, and the ray misses.
    if near > NEAR {
        Some(near)
    } else if far > NEAR {
        Some(far)
    } else {
        None
    }
}

/// The distance to a triangle (Möller and Trumbore, Fast, Minimum Storage Ray/Triangle Intersection,
/// 1997).
fn triangle_distance(ray: Ray, corner: Vector, [one, other]: [Vector; 2]) -> Option<f64> {
    let across = ray.along.cross(other);
    let scale = 1.0 / one.dot(across);
    let from = ray.from - corner;
    let u = from.dot(across) * scale;
    let along = from.cross(one);
    let v = ray.along.dot(along) * scale;
    (u >= 0.0 && v >= 0.0 && u + v <= 1.0).then(|| other.dot(along) * scale)
}

/// The position of the picture in front of the camera.
struct Film {
    eye: Vector,
    /// The vector from the eye to the upper left corner.
    corner: Vector,
    /// The vectors of one pixel to the right and one pixel down.
    right: Vector,
    down: Vector,
}

impl Film {
    fn new(scene: &Scene, width: u32, height: u32) -> Film {
        let camera = scene.camera;
        let ahead = (camera.towards - camera.at).unit();
        let right = Vector(0.0, 1.0, 0.0).cross(ahead).unit();
        let down = right.cross(ahead);
        let size = 2.0 * (camera.angle_degrees.to_radians() / 2.0).tan() / f64::from(width);
        let (right, down) = (right * size, down.unit() * size);
        let corner = ahead - right * (f64::from(width) / 2.0) - down * (f64::from(height) / 2.0);
        Film { eye: camera.at, corner, right, down }
    }

    fn ray(&self, column: f64, row: f64) -> Ray {
        Ray { from: self.eye, along: (self.corner + self.right * column + self.down * row).unit() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AHEAD: Ray = Ray { from: Vector(0.0, 0.0, -5.0), along: Vector(0.0, 0.0, 1.0) };

    /// The pixel in the middle of a picture of the bodies in `things`, with one white light behind the eye.
    fn middle(things: &str) -> [u8; 3] {
        let text = format!("camera 0 0 -5 0 0 0 40\nsky 0 0 1\nlight 0 0 -9 1\n{things}");
        let picture = Scene::parse(&text).expect("a scene").picture(3, 3);
        picture[picture.len() - 5 * 3..][..3].try_into().expect("a pixel")
    }

    #[test]
    fn shapes_are_met_where_they_are() {
        let triangle = |x: f64| Shape::Triangle {
            corner: Vector(x, -1.0, 2.0),
            edges: [Vector(2.0, 0.0, 0.0), Vector(0.0, 2.0, 0.0)],
        };
        let sphere = |z: f64| Shape::Sphere { centre: Vector(0.0, 0.0, z), radius: 2.0 };
        let plane = |z: f64| Shape::Plane { normal: Vector(0.0, 0.0, -1.0), distance: -z };
        for (shape, distance) in [
            (sphere(3.0), Some(6.0)),
            (sphere(-5.0), Some(2.0)),
            (sphere(-8.0), None),
            (Shape::Sphere { centre: Vector(3.0, 0.0, 3.0), radius: 2.0 }, None),
            (plane(1.0), Some(6.0)),
            (plane(-6.0), None),
            (Shape::Plane { normal: Vector(0.0, 1.0, 0.0), distance: -1.0 }, None),
            (triangle(-0.5), Some(7.0)),
            (triangle(0.5), None),
        ] {
            assert_eq!(shape.hit(AHEAD), distance, "{shape:?}");
        }
    }

    #[test]
    fn a_surface_is_lit_mirrors_and_is_shaded() {
        assert_eq!(middle(""), [0, 0, 255], "the sky");
        let wall = "plane 0 0 -1 0 0.5 0 0";
        let [red, _, _] = middle(&format!("{wall} 0"));
        assert!(red > 180, "{red}: lit from the front");
        assert_eq!(middle(&format!("{wall} 1")), [0, 0, 255], "a mirror shows the sky behind the eye");
        // A ball that the camera does not see is between the light and the wall.
        let [dark, _, _] = middle(&format!("{wall} 0\nsphere 0 0 -7 0.5 1 1 1 0"));
        assert_eq!(f64::from(dark), ((0.5 * AMBIENT).sqrt() * 255.0).round(), "only ambient light");
    }

    #[test]
    fn mirrors_that_face_each_other_come_to_an_end() {
        middle("plane 0 0 -1 0 1 1 1 1\nplane 0 0 1 -8 1 1 1 1");
    }
}
