// Boxes in C++: an object that travels through the network, and exceptions that fail their record only.
//
//     c++ -std=c++17 -shared -fPIC -O2 -I.. shapes.cpp -o libshapes.so
//     echo '{"name": "unit", "sides": [3.0, 4.0, 5.0]}' | thalweg run shapes.snet --boxes ./libshapes.so
#include "thalweg.hpp"

#include <cmath>
#include <numeric>

namespace {

struct Polygon {
    std::string name;
    std::vector<double> sides;
};

} // namespace

// The size of a polygon with all memory that it refers to, from which `thalweg streams` computes the sizes of
// records.
template <> inline uint64_t thalweg::deep_size(const Polygon &polygon) {
    return sizeof(Polygon) + polygon.name.size() + polygon.sides.size() * sizeof(double);
}

namespace {

thalweg::Parameter sides_max("shapes.sides_max", "", "The most sides that a polygon may have", 3, 1000, 100);

constexpr thalweg_event_field built_fields[] = {{"sides", "", THALWEG_INT}, {"around", "", THALWEG_FLOAT}};
thalweg::Event built("shapes.built", "A polygon was built", built_fields);

void build(std::string name, std::vector<double> sides, thalweg::Out &out) {
    if (sides.size() > sides_max.get()) throw std::invalid_argument(name + ": it has too many sides");
    if (sides.size() < 3) throw std::invalid_argument(name + ": a polygon has three sides at least");
    built.write(sides.size(), std::accumulate(sides.begin(), sides.end(), 0.0));
    out.emit(std::shared_ptr<const Polygon>(new Polygon{std::move(name), std::move(sides)}));
}

// Heron's formula for triangles; the area of other polygons does not follow from their sides alone.
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

thalweg_parameter *const parameters[] = {sides_max.raw()};
thalweg_event_kind *const events[] = {built.raw()};

} // namespace

THALWEG_LIBRARY_WITH(boxes, parameters, THALWEG_COUNT(parameters), events, THALWEG_COUNT(events), nullptr, nullptr)
