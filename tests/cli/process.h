// Runs the switchyard binary as a user does.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace switchyard {

struct Finished {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

// Runs `switchyard args...` with `input` on stdin. `while_running` is called once with the process id as soon
// as the first byte has come out on stdout.
Finished run_switchyard(const std::vector<std::string>& args, const std::string& input = "",
                        const std::function<void(int pid)>& while_running = {});

// The same with a closed stdin.
Finished run_switchyard_without_stdin(const std::vector<std::string>& args);

// The same with stdout closed at once by its reader.
Finished run_switchyard_without_reader(const std::vector<std::string>& args);

}  // namespace switchyard
