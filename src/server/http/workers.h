// Threads that run what is posted to them, in the order of posting.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>
#include <vector>

namespace flare::server::http {

// As boost::asio::thread_pool, which waits for ever for the threads that did start when the system
// refuses one of several. What is posted must not throw. Any thread may post.
class Workers {
 public:
  // n_threads >= 1. Errors: std::system_error if the system refuses one.
  explicit Workers(int n_threads);
  // What waits is dropped, what runs ends first.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  auto get_executor() { return io_.get_executor(); }
  // Returns when all that was posted has run. Called once, by one thread; nothing is posted after.
  void join();

 private:
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> stay_;
  std::vector<std::thread> threads_;
};

}  // namespace flare::server::http
