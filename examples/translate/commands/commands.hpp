#pragma once

namespace CLI {
class App;
}

/// The subcommands of the program. Each adds its options to the command line, and what it does when chosen.
namespace translate {

/// The exit code unless an exception ends the program: 0, or 1 if a line has no translation, or 130 after a Ctrl-C that was
/// obeyed.
inline int exit_code = 0;

void add_demo(CLI::App& app);
void add_prepare(CLI::App& app);
void add_train(CLI::App& app);
void add_distill(CLI::App& app);
void add_run(CLI::App& app);
void add_rate(CLI::App& app);
void add_shortlist(CLI::App& app);
void add_average(CLI::App& app);
void add_merge(CLI::App& app);
void add_adapters(CLI::App& app);
void add_quantize(CLI::App& app);
void add_export(CLI::App& app);
void add_score(CLI::App& app);
void add_bench(CLI::App& app);
void add_explain(CLI::App& app);

}  // namespace translate
