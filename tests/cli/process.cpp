#include "cli/process.h"

#include <array>
#include <csignal>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace switchyard {
namespace {

struct Pipe {
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  }
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) close(end);
    }
  }
  void close_end(size_t i) {
    close(ends[i]);
    ends[i] = -1;
  }
  std::array<int, 2> ends{-1, -1};  // read, write
};

// in_fd -1: without a stdin.
pid_t start(const std::vector<std::string>& args, int in_fd, const Pipe& out, const Pipe& err) {
  std::vector<char*> argv{const_cast<char*>(SWITCHYARD_BINARY)};
  for (const std::string& arg : args)
    argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    if (in_fd < 0) close(STDIN_FILENO);
    if (in_fd >= 0) dup2(in_fd, STDIN_FILENO);
    dup2(out.ends[1], STDOUT_FILENO);
    dup2(err.ends[1], STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  return pid;
}

std::string read_all(int fd, const std::function<void()>& on_first_byte) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t n = 0; (n = read(fd, buffer.data(), buffer.size())) > 0;) {
    if (text.empty() && on_first_byte) on_first_byte();
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  return text;
}

int wait_for(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Finished run_switchyard(const std::vector<std::string>& args, const std::string& input,
                        const std::function<void(int pid)>& while_running) {
  std::signal(SIGPIPE, SIG_IGN);  // a process that reads no stdin
  Pipe in, out, err;
  const pid_t pid = start(args, in.ends[0], out, err);
  in.close_end(0);
  out.close_end(1);
  err.close_end(1);
  Finished finished;
  std::thread errors([&] { finished.err = read_all(err.ends[0], {}); });
  std::thread writer([&] {
    if (write(in.ends[1], input.data(), input.size()) < 0) return;
    in.close_end(1);
  });
  finished.out = read_all(out.ends[0], [&] {
    if (while_running) while_running(pid);
  });
  writer.join();
  errors.join();
  finished.exit_code = wait_for(pid);
  return finished;
}

Finished run_switchyard_without_stdin(const std::vector<std::string>& args) {
  Pipe out, err;
  const pid_t pid = start(args, -1, out, err);
  out.close_end(1);
  err.close_end(1);
  Finished finished;
  std::thread errors([&] { finished.err = read_all(err.ends[0], {}); });
  finished.out = read_all(out.ends[0], {});
  errors.join();
  finished.exit_code = wait_for(pid);
  return finished;
}

Finished run_switchyard_without_reader(const std::vector<std::string>& args) {
  Pipe in, out, err;
  out.close_end(0);
  const pid_t pid = start(args, in.ends[0], out, err);
  in.close_end(0);
  in.close_end(1);
  out.close_end(1);
  err.close_end(1);
  Finished finished;
  finished.err = read_all(err.ends[0], {});
  finished.exit_code = wait_for(pid);
  return finished;
}

}  // namespace switchyard
