// Chains and rings of oneTBB. A line "pipeline|chain|round HOPS MESSAGES" on standard input is answered by the nanoseconds
// that it took and the sum (of a ring: the message) that came out.
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/parallel_pipeline.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <iostream>
#include <string>

namespace flow = oneapi::tbb::flow;
using Message = std::uint64_t;
using Stage = std::function<Message(Message)>;
using Node = flow::function_node<Message, Message>;

constexpr std::size_t capacity = 64;

static Stage stage() {
    return [](Message message) { return message + 1; };
}

static Message pipeline(int hops, Message messages) {
    using oneapi::tbb::filter_mode;
    using oneapi::tbb::make_filter;
    Message next = 0, sum = 0;
    auto all = make_filter<void, Message>(filter_mode::serial_in_order, [&](oneapi::tbb::flow_control &control) {
        if (next == messages) control.stop();
        return next++;
    });
    for (int at = 1; at < hops; at++) all = all & make_filter<Message, Message>(filter_mode::serial_in_order, stage());
    auto sink = make_filter<Message, void>(filter_mode::serial_in_order, [&](Message message) { sum += message; });
    oneapi::tbb::parallel_pipeline(capacity, all & sink);
    return sum;
}

static Message chain(int hops, Message messages) {
    flow::graph graph;
    Message next = 0, sum = 0;
    flow::input_node<Message> source(graph, [&](oneapi::tbb::flow_control &control) {
        if (next == messages) control.stop();
        return next++;
    });
    // The queues of a flow graph are unbounded, so a limiter bounds the number of messages under way.
    flow::limiter_node<Message> limit(graph, capacity * hops);
    std::deque<Node> stages;
    flow::make_edge(source, limit);
    flow::sender<Message> *last = &limit;
    for (int at = 1; at < hops; at++) {
        stages.emplace_back(graph, flow::serial, stage());
        flow::make_edge(*last, stages.back());
        last = &stages.back();
    }
    flow::function_node<Message, flow::continue_msg> sink(graph, flow::serial, [&](Message message) {
        sum += message;
        return flow::continue_msg();
    });
    flow::make_edge(*last, sink);
    flow::make_edge(sink, limit.decrementer());
    source.activate();
    graph.wait_for_all();
    return sum;
}

static Message ring(int hops, Message rounds) {
    flow::graph graph;
    Message result = 0;
    using Last = flow::multifunction_node<Message, std::tuple<Message>>;
    std::deque<Node> stages;
    for (int at = 1; at < hops; at++) {
        stages.emplace_back(graph, flow::serial, stage());
        if (at > 1) flow::make_edge(stages[at - 2], stages[at - 1]);
    }
    Stage work = stage();
    Last last(graph, flow::serial, [&](Message message, Last::output_ports_type &out) {
        result = work(message);
        if (--rounds > 0) std::get<0>(out).try_put(result);
    });
    flow::make_edge(stages.back(), last);
    flow::make_edge(flow::output_port<0>(last), stages.front());
    stages.front().try_put(0);
    graph.wait_for_all();
    return result;
}

int main() {
    std::string what;
    int hops;
    Message messages;
    while (std::cin >> what >> hops >> messages) {
        auto begin = std::chrono::steady_clock::now();
        Message result = what == "pipeline" ? pipeline(hops, messages) : what == "chain" ? chain(hops, messages) : ring(hops, messages);
        std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
        std::cout << took.count() << ' ' << result << std::endl;
    }
}
