//! Points, directions and colours: three numbers.

use std::ops::{Add, Mul, Neg, Sub};

/// Three numbers: x, y and z, or red, green and blue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vector(pub f64, pub f64, pub f64);

impl Vector {
    /// The dot product with another vector.
    pub fn dot(self, other: Vector) -> f64 {
        self.0 * other.0 + self.1 * other.1 + self.2 * other.2
    }

    /// The cross product, at right angles to both vectors.
    pub fn cross(self, other: Vector) -> Vector {
        Vector(
            self.1 * other.2 - self.2 * other.1,
            self.2 * other.0 - self.0 * other.2,
            self.0 * other.1 - self.1 * other.0,
        )
    }

    /// The vector's length.
    pub fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    /// The vector of the same direction and length 1; a zero vector stays zero.
    pub fn unit(self) -> Vector {
        let length = self.length();
        if length > 0.0 { self * (1.0 / length) } else { self }
    }

    /// The vector reflected by a surface with this normal of length 1.
    pub fn reflected(self, normal: Vector) -> Vector {
        self - normal * (2.0 * self.dot(normal))
    }

    /// The product of each component with that of another vector.
    pub fn times(self, other: Vector) -> Vector {
        Vector(self.0 * other.0, self.1 * other.1, self.2 * other.2)
    }
}

impl Add for Vector {
    type Output = Vector;

    fn add(self, other: Vector) -> Vector {
        Vector(self.0 + other.0, self.1 + other.1, self.2 + other.2)
    }
}

impl Sub for Vector {
    type Output = Vector;

    fn sub(self, other: Vector) -> Vector {
        self + -other
    }
}

impl Neg for Vector {
    type Output = Vector;

    fn neg(self) -> Vector {
        self * -1.0
    }
}

impl Mul<f64> for Vector {
    type Output = Vector;

    fn mul(self, factor: f64) -> Vector {
        Vector(self.0 * factor, self.1 * factor, self.2 * factor)
    }
}

#[cfg(test)]
mod tests {
    use super::Vector;

    #[test]
    fn a_mirror_turns_only_what_comes_towards_it() {
        let down = Vector(3.0, -4.0, 1.0);
        assert_eq!(down.reflected(Vector(0.0, 1.0, 0.0)), Vector(3.0, 4.0, 1.0));
        assert_eq!(down.cross(Vector(0.0, 1.0, 0.0)).dot(down), 0.0);
        assert_eq!(Vector(0.0, 3.0, -4.0).unit().length(), 1.0);
        assert_eq!(Vector::default().unit(), Vector::default());
    }
}
