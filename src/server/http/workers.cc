// One io_context that its threads run until nothing is left.
#include "server/http/workers.h"

namespace flare::server::http {

Workers::Workers(int n_threads) : io_(n_threads), stay_(io_.get_executor()) {
  threads_.reserve(static_cast<size_t>(n_threads));
  try {
    for (int i = 0; i < n_threads; ++i) threads_.emplace_back([this] { io_.run(); });
  } catch (...) {
    io_.stop();
    join();
    throw;
  }
}

Workers::~Workers() {
  io_.stop();
  join();
}

void Workers::join() {
  stay_.reset();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace flare::server::http
