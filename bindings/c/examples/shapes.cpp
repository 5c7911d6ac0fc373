// Boxes in C++: an object that travels through the network, and exceptions that fail their record only.
//
//     c++ -std=c++17 -shared -fPIC -O2 -I.. shapes.cpp -o libshapes.so
//     echo '{"name": "unit", "sides": [3.0, 4.0, 5.0]}' | thalweg run shapes.snet --boxes libshapes.so
#include "thalweg.hpp"

#include <cmath>

namespace {

struct Polygon {
    std::string name;
    std::vector<double> sides;
};

void build(std::string name, std::vector<double> sides, thalweg::Out &out) {
    if (sides.size() < 3) throw std::invalid_argument(name + ": a polygon has three sides at least");
    out.emit(std::shared_ptr<const Polygon>(new Polygon{std::move(name), std::move(sides)}));
}

// Heron's formula for triangles; others have no area by their sides alone.
void measure(std::shared_ptr<const Polygon> polygon, thalweg::Out &out) {
    double around = 0;
    for (double side : polygon->sides) around += side;
    if (polygon->sides.size() != 3) {
        out.emit_variant(2, polygon->name, around);
        return;
    }
    double half = around / 2, product = half;
    for (double side : polygon->sides) product *= half - side;
    if (product < 0) throw std::domain_error(polygon->name + ": its sides do not meet");
    out.emit(polygon->name, around, std::sqrt(product));
}

const thalweg_box boxes[] = {
    THALWEG_CXX_BOX("box build ((name, sides) -> (polygon))", build),
    THALWEG_CXX_BOX("box measure ((polygon) -> (name, around, area) | (name, around))", measure),
};

} // namespace

THALWEG_LIBRARY(boxes)
