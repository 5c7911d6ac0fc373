// Boxes in series as a flow graph of oneTBB. Arguments: the number of threads, the number of messages, and for each box
// `TURNS:AT_ONCE`, the turns of its loop for a message and the number of messages that it works on at once. Prints the
// seconds of the graph, and the seconds in which one thread makes as many turns.
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>

namespace flow = oneapi::tbb::flow;
using Clock = std::chrono::steady_clock;
using Message = std::uint64_t;

constexpr std::size_t capacity = 64;

// The loop of the boxes: each turn depends on the one before.
static void compute(std::uint64_t turns) {
    std::uint64_t number = 1;
    asm volatile("" : "+r"(number));
    for (std::uint64_t turn = 0; turn < turns; turn++) number = (number ^ number >> 29) * 6364136223846793005u;
    asm volatile("" : : "r"(number));
}

static double seconds(Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count();
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    const auto threads = std::strtoull(arguments[1], nullptr, 10);
    const Message messages = std::strtoull(arguments[2], nullptr, 10);
    oneapi::tbb::global_control limit_of_threads(oneapi::tbb::global_control::max_allowed_parallelism, threads);
    flow::graph graph;
    Message next = 0, arrived = 0;
    std::uint64_t all_turns = 0;
    flow::input_node<Message> source(graph, [&](oneapi::tbb::flow_control &control) {
        if (next == messages) control.stop();
        return next++;
    });
    // The queues of a flow graph are unbounded, so a limiter bounds the number of messages under way.
    flow::limiter_node<Message> limit(graph, capacity * static_cast<std::size_t>(count - 3));
    std::deque<flow::function_node<Message, Message>> boxes;
    flow::make_edge(source, limit);
    flow::sender<Message> *last = &limit;
    for (int at = 3; at < count; at++) {
        char *rest = nullptr;
        const auto turns = std::strtoull(arguments[at], &rest, 10);
        const auto at_once = *rest == ':' ? std::strtoull(rest + 1, nullptr, 10) : 1;
        all_turns += turns;
        boxes.emplace_back(graph, at_once, [turns](Message message) {
            compute(turns);
            return message;
        });
        flow::make_edge(*last, boxes.back());
        last = &boxes.back();
    }
    flow::function_node<Message, flow::continue_msg> sink(graph, flow::serial, [&](Message) {
        arrived++;
        return flow::continue_msg();
    });
    flow::make_edge(*last, sink);
    flow::make_edge(sink, limit.decrementer());
    auto begun = Clock::now();
    source.activate();
    graph.wait_for_all();
    const double took = seconds(begun);
    begun = Clock::now();
    for (Message message = 0; message < messages; message++) compute(all_turns);
    std::printf("%.6f %.6f\n", took, seconds(begun));
    return arrived == messages ? 0 : 1;
}
