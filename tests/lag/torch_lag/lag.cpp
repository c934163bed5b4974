// torch_lag: a PrivateUse1 device whose kernels run late, on threads, over raw pointers. See README.md.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <pybind11/pybind11.h>
#include <torch/library.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_set>

namespace {

constexpr auto kLag = c10::DeviceType::PrivateUse1;
constexpr int kDevices = 2;
using Clock = std::chrono::steady_clock;
using Task = std::function<void()>;

// ------------------------------------------------------------------ settings and counters
std::atomic<int64_t> g_delay_us{200}, g_alloc_limit{0};
std::atomic<int> g_jitter{1}, g_blocking{0}, g_pageable_async{0}, g_poison{1};
std::atomic<int64_t> g_launched{0}, g_syncs{0}, g_host_syncs{0};
std::atomic<int64_t> g_live[kDevices] = {}, g_peak[kDevices] = {};
std::mutex g_names_m;
std::map<std::string, int64_t> g_sync_ops, g_async_ops;
std::mutex g_error_m;
std::string g_error[kDevices];     // sticky, as CUDA's
std::atomic<int> g_fail_side{0};
std::atomic<int64_t> g_side_delay_us{-1};
std::atomic<int64_t> g_fail_after{-1}, g_event_delay_us{0};
thread_local std::string t_last_error;  // as cudaGetLastError: kept for this thread's next launch, whoever made it

void check_error(int device) {
  std::lock_guard<std::mutex> l(g_error_m);
  TORCH_CHECK(g_error[device].empty(), "lag error: ", g_error[device]);
}

// ------------------------------------------------------------------ streams: one thread each
struct Lane {
  int device;
  int64_t id;
  std::atomic<int64_t> delay_us{-1};
  std::mutex m;
  std::condition_variable cv;
  std::deque<std::pair<Task, bool>> q;
  uint64_t submitted = 0, done = 0;
  uint64_t rng;
  Lane(int d, int64_t i) : device(d), id(i), rng(88172645463325252ull + i * 7919 + d) {
    std::thread([this] { run(); }).detach();
  }
  void run();
  void submit(Task t, bool kernel) {
    {
      std::lock_guard<std::mutex> l(m);
      q.emplace_back(std::move(t), kernel);
      ++submitted;
    }
    cv.notify_all();
    if (kernel && g_blocking) wait();
  }
  void wait() {
    ++g_syncs;
    std::unique_lock<std::mutex> l(m);
    auto goal = submitted;
    cv.wait(l, [&] { return done >= goal; });
  }
  bool idle() {
    std::lock_guard<std::mutex> l(m);
    return done >= submitted;
  }
};

void Lane::run() {
  at::set_num_threads(1);
  c10::InferenceMode inference;
  while (true) {
    std::pair<Task, bool> work;
    {
      std::unique_lock<std::mutex> l(m);
      cv.wait(l, [&] { return !q.empty(); });
      work = std::move(q.front());
      q.pop_front();
    }
    if (work.second) {
      int64_t us = delay_us >= 0 ? delay_us.load() : id > 0 && g_side_delay_us >= 0 ? g_side_delay_us.load() : g_delay_us.load();
      if (us > 0) {
        if (g_jitter) {
          rng ^= rng << 13; rng ^= rng >> 7; rng ^= rng << 17;
          us = static_cast<int64_t>(rng % static_cast<uint64_t>(2 * us + 1));
        }
        std::this_thread::sleep_for(std::chrono::microseconds(us));
      }
    }
    try {
      if (work.second && (id > 0 || !g_fail_side) && g_fail_after >= 0 && g_fail_after.fetch_sub(1) == 0) throw std::runtime_error("an injected device fault");
      work.first();
    } catch (const std::exception& e) {
      std::lock_guard<std::mutex> l(g_error_m);
      if (g_error[device].empty()) g_error[device] = e.what();
    }
    work.first = nullptr;
    {
      std::lock_guard<std::mutex> l(m);
      ++done;
    }
    cv.notify_all();
  }
}

std::mutex g_lanes_m;
std::vector<Lane*> g_lanes[kDevices];
thread_local int t_device = 0;
thread_local int64_t t_stream[kDevices] = {0, 0};

Lane& lane(int device, int64_t id) {
  std::lock_guard<std::mutex> l(g_lanes_m);
  auto& all = g_lanes[device];
  if (all.empty()) all.push_back(new Lane(device, 0));
  TORCH_CHECK(id >= 0 && id < static_cast<int64_t>(all.size()), "no such stream: ", id);
  return *all[id];
}
int64_t new_lane(int device) {
  lane(device, 0);
  std::lock_guard<std::mutex> l(g_lanes_m);
  g_lanes[device].push_back(new Lane(device, g_lanes[device].size()));
  return g_lanes[device].back()->id;
}
Lane& current(int device) { return lane(device, t_stream[device]); }
std::vector<Lane*> lanes_of(int device) {
  lane(device, 0);
  std::lock_guard<std::mutex> l(g_lanes_m);
  return g_lanes[device];
}
void sync_device(int device) {
  for (auto* one : lanes_of(device)) one->wait();
  check_error(device);
}
int index_of(c10::Device d) { return d.index() < 0 ? t_device : d.index(); }
struct OnDevice {
  int before;
  explicit OnDevice(int d) : before(t_device) { t_device = d; }
  ~OnDevice() { t_device = before; }
};

// ------------------------------------------------------------------ events
struct Mark {
  std::mutex m;
  std::condition_variable cv;
  bool done = false;
  Clock::time_point when;
  void set() {
    { std::lock_guard<std::mutex> l(m); done = true; when = Clock::now(); }
    cv.notify_all();
  }
  void wait() { std::unique_lock<std::mutex> l(m); cv.wait(l, [&] { return done; }); }
  bool ready() { std::lock_guard<std::mutex> l(m); return done; }
};
struct Event { std::shared_ptr<Mark> mark; bool timing; int device; };

// ------------------------------------------------------------------ memory
struct Block { char* ptr; size_t size; int device; int64_t stream; std::set<int64_t> used_by; };
std::mutex g_blocks_m;
std::unordered_set<Block*> g_blocks;
std::mutex g_quarantine_m;
std::deque<std::pair<char*, size_t>> g_quarantine;
size_t g_quarantined = 0;

void put_away(char* ptr, size_t size, int device) {
  if (g_poison) std::memset(ptr, 0xDB, size);
  g_live[device] -= static_cast<int64_t>(size);
  std::lock_guard<std::mutex> l(g_quarantine_m);
  g_quarantine.emplace_back(ptr, size);
  g_quarantined += size;
  while (g_quarantined > (256u << 20)) {
    auto [p, s] = g_quarantine.front();
    g_quarantine.pop_front();
    g_quarantined -= s;
    c10::free_cpu(p);
  }
}
// Worst case of a caching allocator: the memory is overwritten by the very next kernel of the stream that it was allocated on,
// except that the streams of record_stream are waited for.
void free_block(void* context) {
  auto* block = static_cast<Block*>(context);
  {
    std::lock_guard<std::mutex> l(g_blocks_m);
    g_blocks.erase(block);
  }
  auto left = std::make_shared<std::atomic<int>>(static_cast<int>(block->used_by.size()) + 1);
  Task last = [left, ptr = block->ptr, size = block->size, device = block->device] {
    if (--*left == 0) put_away(ptr, size, device);
  };
  for (auto id : block->used_by) lane(block->device, id).submit(last, false);
  lane(block->device, block->stream).submit(last, false);
  delete block;
}
struct LagAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    int device = t_device;
    auto limit = g_alloc_limit.load();
    if (limit && g_live[device] + static_cast<int64_t>(n) > limit) {
      for (auto* one : lanes_of(device)) one->wait();  // what was freed in stream order is there now
      if (g_live[device] + static_cast<int64_t>(n) > limit)
        TORCH_CHECK_WITH(OutOfMemoryError, false, "LAG out of memory. Tried to allocate ", n, " bytes; ", g_live[device].load(), " of ", limit, " in use");
    }
    if (n == 0) return {nullptr, nullptr, &free_nothing, c10::Device(kLag, device)};
    auto* ptr = static_cast<char*>(c10::alloc_cpu(n));
    if (g_poison) std::memset(ptr, 0xDB, n);
    auto live = g_live[device] += static_cast<int64_t>(n);
    if (live > g_peak[device]) g_peak[device] = live;
    auto* block = new Block{ptr, n, device, t_stream[device], {}};
    {
      std::lock_guard<std::mutex> l(g_blocks_m);
      g_blocks.insert(block);
    }
    return {ptr, block, &free_block, c10::Device(kLag, device)};
  }
  static void free_nothing(void*) {}
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* dest, const void* src, std::size_t n) const override { std::memcpy(dest, src, n); }
};
LagAllocator g_allocator;

std::mutex g_pinned_m;
std::map<uintptr_t, size_t> g_pinned;
bool is_pinned(const void* p, size_t n = 1) {
  std::lock_guard<std::mutex> l(g_pinned_m);
  auto at = reinterpret_cast<uintptr_t>(p);
  auto it = g_pinned.upper_bound(at);
  if (it == g_pinned.begin()) return false;
  --it;
  return at >= it->first && at + n <= it->first + it->second;
}
int host_register(uintptr_t p, size_t n) {  // 0, or CUDA's number for "already registered"
  std::lock_guard<std::mutex> l(g_pinned_m);
  auto it = g_pinned.lower_bound(p);
  if (it != g_pinned.end() && it->first < p + n) return 712;
  if (it != g_pinned.begin() && (--it)->first + it->second > p) return 712;
  g_pinned[p] = n;
  return 0;
}
int host_unregister(uintptr_t p) {
  std::lock_guard<std::mutex> l(g_pinned_m);
  return g_pinned.erase(p) ? 0 : 713;
}
struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    auto* p = c10::alloc_cpu(n ? n : 1);
    host_register(reinterpret_cast<uintptr_t>(p), n ? n : 1);
    return {p, p, &gone, c10::Device(c10::kCPU)};
  }
  static void gone(void* p) {  // a caching host allocator waits for the streams; so is done here, coarsely
    for (int d = 0; d < kDevices; ++d) for (auto* one : lanes_of(d)) one->wait();
    host_unregister(reinterpret_cast<uintptr_t>(p));
    c10::free_cpu(p);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &gone; }
  void copy_data(void* dest, const void* src, std::size_t n) const override { std::memcpy(dest, src, n); }
};
PinnedAllocator g_pinned_allocator;

// ------------------------------------------------------------------ launching
// What a kernel knows of a tensor: an address and how to walk over it. It owns nothing.
struct Raw {
  void* ptr;
  std::vector<int64_t> sizes, strides;
  c10::ScalarType dtype;
  at::Tensor tensor() const {
    return at::from_blob(ptr, sizes, strides, at::TensorOptions().dtype(dtype));
  }
};
Raw raw_of(const at::Tensor& t) {
  auto* base = static_cast<char*>(const_cast<void*>(t.storage().data()));
  return {base == nullptr ? nullptr : base + t.storage_offset() * t.element_size(), t.sizes().vec(), t.strides().vec(), t.scalar_type()};
}
bool is_lag(const at::Tensor& t) { return t.defined() && t.device().type() == kLag; }

void launch(int device, Task task) {
  check_error(device);
  if (!t_last_error.empty()) {
    auto told = std::exchange(t_last_error, "");
    TORCH_CHECK(false, "lag error: ", told);
  }
  ++g_launched;
  current(device).submit(std::move(task), true);
}
void sync_current(int device) {
  ++g_host_syncs;
  current(device).wait();
  check_error(device);
}
at::Tensor empty_like_meta(const at::Tensor& meta, int device) {
  OnDevice on(device);
  return at::detail::empty_strided_generic(meta.sizes(), meta.strides(), &g_allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), meta.scalar_type());
}
at::Tensor meta_of(const at::Tensor& t) {
  if (t.unsafeGetTensorImpl()->is_wrapped_number()) return t;  // a number, as every device takes it
  auto made = at::empty_strided(t.sizes(), t.strides(), at::TensorOptions().dtype(t.scalar_type()).device(c10::kMeta));
  return made;
}

using Map = std::function<at::Tensor(const at::Tensor&)>;
c10::IValue mapped(const c10::IValue& v, const Map& f, c10::Device device) {
  if (v.isTensor()) return v.toTensor().defined() ? c10::IValue(f(v.toTensor())) : v;
  if (v.isDevice()) return v.toDevice().type() == kLag ? c10::IValue(device) : v;
  if (v.isList()) {
    auto list = v.toList();
    c10::impl::GenericList made(list.elementType());
    made.reserve(list.size());
    for (const c10::IValue& item : list.vec()) made.push_back(mapped(item, f, device));
    return made;
  }
  return v;
}
void each_tensor(const c10::IValue& v, const std::function<void(const at::Tensor&)>& f) {
  if (v.isTensor()) { if (v.toTensor().defined()) f(v.toTensor()); }
  else if (v.isList()) for (const c10::IValue& item : v.toList().vec()) each_tensor(item, f);
}

// No thread of a stream may hold a tensor that Python knows: letting go of it takes the interpreter's lock, which whoever waits
// for the stream may hold.
at::Tensor host_copy(const at::Tensor& t) {
  auto made = t.clone();
  if (t.unsafeGetTensorImpl()->is_wrapped_number()) made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}
// A task's copy of an argument: tensors of the device by their address, all else by value.
struct Held { std::vector<c10::IValue> args; std::vector<std::vector<Raw>> raws; };
Held hold(at::ArrayRef<c10::IValue> args) {
  Held held;
  for (const auto& v : args) {
    std::vector<Raw> raws;
    held.args.push_back(mapped(v, [&](const at::Tensor& t) {
      if (!is_lag(t)) return host_copy(t);
      raws.push_back(raw_of(t));
      return at::empty({0}, at::TensorOptions().dtype(t.scalar_type()).device(c10::kMeta));  // its place
    }, c10::Device(c10::kCPU)));
    held.raws.push_back(std::move(raws));
  }
  return held;
}
torch::jit::Stack on_host(const Held& held) {
  torch::jit::Stack stack;
  for (size_t i = 0; i < held.args.size(); ++i) {
    size_t next = 0;
    stack.push_back(mapped(held.args[i], [&](const at::Tensor& t) {
      return t.is_meta() ? held.raws[i][next++].tensor() : t;
    }, c10::Device(c10::kCPU)));
  }
  return stack;
}
void count(std::map<std::string, int64_t>& where, const c10::OperatorHandle& op) {
  std::lock_guard<std::mutex> l(g_names_m);
  ++where[toString(op.operator_name())];
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const auto n = schema.arguments().size();
  std::vector<c10::IValue> args(stack->end() - n, stack->end());
  int device = -1;
  bool random = false;
  for (const auto& v : args) {
    each_tensor(v, [&](const at::Tensor& t) {
      if (!is_lag(t)) return;
      TORCH_CHECK(device < 0 || device == t.device().index(), "Expected all tensors to be on the same device: ", toString(op.operator_name()));
      device = t.device().index();
    });
    if (device < 0 && v.isDevice() && v.toDevice().type() == kLag) device = index_of(v.toDevice());
  }
  if (device < 0) device = t_device;
  OnDevice on(device);
  for (const auto& a : schema.arguments()) random |= a.type()->str().find("Generator") != std::string::npos;
  bool tensors_only = true;
  for (const auto& r : schema.returns()) {
    auto kind = r.type()->kind();
    tensors_only &= kind == c10::TypeKind::TensorType || (kind == c10::TypeKind::ListType && r.type()->castRaw<c10::ListType>()->getElementType()->kind() == c10::TypeKind::TensorType);
  }

  torch::jit::Stack meta;
  bool asynchronous = tensors_only && !random;
  if (asynchronous) {
    for (const auto& v : args) meta.push_back(mapped(v, meta_of, c10::Device(c10::kMeta)));
    auto given = meta;
    try {
      at::AutoDispatchBelowAutograd below;
      op.callBoxed(&meta);
      for (size_t i = 0; i < n; ++i) {  // an out= that the kernel resizes
        const auto* alias = schema.arguments()[i].alias_info();
        if (alias == nullptr || !alias->isWrite() || !given[i].isTensor() || !given[i].toTensor().defined()) continue;
        if (args[i].toTensor().sizes() != given[i].toTensor().sizes()) {
          auto out = args[i].toTensor();
          out.resize_(given[i].toTensor().sizes());
        }
      }
    } catch (const std::exception& e) {
      if (std::getenv("LAG_DEBUG")) fprintf(stderr, "lag: %s waits: %.300s\n", toString(op.operator_name()).c_str(), e.what());
      asynchronous = false;  // shapes that depend on values, or no meta kernel: the call waits, and says what is wrong
    }
  }
  // The argument that a return value is or looks into.
  auto same = [&](size_t r) -> int {
    const auto* alias = schema.returns()[r].alias_info();
    if (alias == nullptr) return -1;
    for (size_t i = 0; i < n; ++i) {
      const auto* other = schema.arguments()[i].alias_info();
      if (other != nullptr && other->beforeSets() == alias->beforeSets()) return static_cast<int>(i);
    }
    return -1;
  };
  std::vector<c10::IValue> results;
  if (asynchronous) {
    std::vector<std::vector<Raw>> outs;
    bool view = false;
    for (size_t r = 0; r < schema.returns().size(); ++r) {
      const auto* alias = schema.returns()[r].alias_info();
      int from = same(r);
      std::vector<Raw> raws;
      if (alias != nullptr && alias->isWrite() && from >= 0) {
        results.push_back(args[from]);
      } else if (alias != nullptr && from >= 0) {
        view = true;
        auto base = args[from].toTensor();
        results.push_back(mapped(meta[r], [&](const at::Tensor& m) {
          return base.as_strided(m.sizes(), m.strides(), base.storage_offset() + m.storage_offset());
        }, c10::Device(c10::kMeta)));
      } else {
        results.push_back(mapped(meta[r], [&](const at::Tensor& m) {
          auto out = empty_like_meta(m, device);
          raws.push_back(raw_of(out));
          return out;
        }, c10::Device(c10::kMeta)));
      }
      outs.push_back(std::move(raws));
    }
    if (!view) {
      count(g_async_ops, op);
      launch(device, [op, held = hold(args), outs = std::move(outs)] {
        auto host = on_host(held);
        op.callBoxed(&host);
        for (size_t r = 0; r < outs.size(); ++r) {
          if (outs[r].empty()) continue;
          size_t next = 0;
          each_tensor(host[r], [&](const at::Tensor& t) {
            auto out = outs[r][next++].tensor();
            TORCH_CHECK(out.sizes() == t.sizes() && out.scalar_type() == t.scalar_type(), toString(op.operator_name()), ": meta said ", out.sizes(), " and the kernel made ", t.sizes());
            out.copy_(t);
          });
        }
      });
    }
  } else {
    count(g_sync_ops, op);
    launch(device, [] {});  // takes its time like any other
    sync_current(device);
    auto host = on_host(hold(args));
    {
      c10::InferenceMode inference;
      op.callBoxed(&host);
    }
    for (size_t r = 0; r < schema.returns().size(); ++r) {
      int from = same(r);
      if (from >= 0) { results.push_back(args[from]); continue; }
      results.push_back(mapped(host[r], [&](const at::Tensor& t) {
        auto out = empty_like_meta(t, device);
        raw_of(out).tensor().copy_(t);
        return out;
      }, c10::Device(kLag, device)));
    }
  }
  torch::jit::drop(*stack, n);
  for (auto& r : results) stack->push_back(std::move(r));
}

// ------------------------------------------------------------------ the operators that are not a fallback
at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  OnDevice on(device ? index_of(*device) : t_device);
  return at::detail::empty_generic(size, &g_allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype), format);
}
at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool>) {
  OnDevice on(device ? index_of(*device) : t_device);
  return at::detail::empty_strided_generic(size, stride, &g_allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype));
}
at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), offset ? std::optional<int64_t>(offset->expect_int()) : std::nullopt);
}
at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) { return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size)); }
at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}
at::Tensor unfold(const at::Tensor& self, int64_t dim, int64_t size, int64_t step) { return at::native::unfold(self, dim, size, step); }

at::Scalar local_scalar_dense(const at::Tensor& self) {
  sync_current(self.device().index());
  return raw_of(self).tensor().item();
}
const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size_, std::optional<c10::MemoryFormat>) {
  auto size = C10_AS_INTARRAYREF_SLOW(size_);
  OnDevice on(self.device().index());
  auto* impl = self.unsafeGetTensorImpl();
  size_t wanted = self.element_size() * (c10::multiply_integers(size) + self.storage_offset());
  auto storage = self.storage();
  if (wanted > storage.nbytes()) {
    auto data = g_allocator.allocate(wanted);
    if (storage.nbytes() > 0) {
      auto *to = data.get(); const auto* from = storage.data(); auto bytes = storage.nbytes();
      launch(t_device, [=] { std::memcpy(to, from, bytes); });
    }
    storage.set_data_ptr_noswap(std::move(data));
    storage.set_nbytes(wanted);
  }
  impl->set_sizes_contiguous(size);
  return self;
}
at::Tensor& set_source(at::Tensor& self, at::Storage source, int64_t offset, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return at::cpu::set_(self, source, offset, size, stride);
}
void record_stream(at::Tensor& self, c10::Stream stream) {
  if (!self.storage().data()) return;
  auto* block = static_cast<Block*>(self.storage().data_ptr().get_context());
  std::lock_guard<std::mutex> l(g_blocks_m);
  TORCH_CHECK(g_blocks.count(block), "record_stream on memory that is no block of the allocator");
  TORCH_CHECK(stream.device_index() == block->device, "record_stream with a stream of another device");
  if (stream.id() != block->stream) block->used_by.insert(stream.id());
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  if (dst.numel() == 0) return dst;
  if (is_lag(self) && is_lag(dst)) {
    if (self.device() != dst.device()) {
      sync_current(self.device().index());
      sync_current(dst.device().index());
    }
    OnDevice on(dst.device().index());
    launch(t_device, [to = raw_of(dst), from = raw_of(self)] { to.tensor().copy_(from.tensor()); });
    if (self.device() != dst.device()) sync_current(t_device);
    return dst;
  }
  const bool up = is_lag(dst);
  const int device = (up ? dst : self).device().index();
  OnDevice on(device);
  const bool plain = self.sizes() == dst.sizes() && self.scalar_type() == dst.scalar_type() && self.is_contiguous() && dst.is_contiguous();
  const auto& host = up ? self : dst;
  const bool dma = plain && non_blocking && (is_pinned(host.const_data_ptr(), host.nbytes()) || (!up && g_pageable_async));
  if (up) {
    if (dma) {
      launch(device, [to = raw_of(dst).ptr, from = self.const_data_ptr(), bytes = self.nbytes()] { std::memcpy(to, from, bytes); });
      return dst;
    }
    auto staged = self.expand(dst.sizes()).to(dst.scalar_type()).contiguous().clone();
    launch(device, [to = raw_of(dst), staged] { to.tensor().copy_(staged); });
    if (!non_blocking) sync_current(device);
    return dst;
  }
  if (dma) {
    launch(device, [to = dst.mutable_data_ptr(), from = raw_of(self).ptr, bytes = dst.nbytes()] { std::memcpy(to, from, bytes); });
    return dst;
  }
  auto staged = at::empty(self.sizes(), at::TensorOptions().dtype(self.scalar_type()));
  launch(device, [staged, from = raw_of(self)] { auto to = staged; to.copy_(from.tensor()); });
  sync_current(device);
  auto out = dst;
  out.copy_(staged);
  return dst;
}
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.numel() != self.numel()) dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

// Composite on other devices, where the kernel chosen depends on the device: as one kernel, so that it is the CPU's own.
at::Tensor sdpa(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& mask, double dropout, bool causal, std::optional<double> scale, bool gqa) {
  const int device = q.device().index();
  auto size = q.sizes().vec();
  size.back() = v.size(-1);
  // The CPU's fused kernel gives [B, H, L, E] as a transposed [B, L, H, E]; the caller's next kernel depends on no stride.
  OnDevice on(device);
  auto out = at::empty(size, q.options());
  std::optional<Raw> m;
  if (mask && mask->defined()) m = raw_of(*mask);
  { std::lock_guard<std::mutex> l(g_names_m); ++g_async_ops["aten::scaled_dot_product_attention"]; }
  launch(device, [=, q = raw_of(q), k = raw_of(k), v = raw_of(v), out = raw_of(out)] {
    auto made = at::scaled_dot_product_attention(q.tensor(), k.tensor(), v.tensor(), m ? std::optional<at::Tensor>(m->tensor()) : std::nullopt, dropout, causal, scale, gqa);
    out.tensor().copy_(made);
  });
  return out;
}
// The layout of the CPU's result (ATen/native/ConvUtils.h, mkldnn_conv_use_channels_last), which the meta kernel does not
// know: a reduction after it adds in the order of its layout, which is the last bit of its sums.
at::MemoryFormat layout_of_convolution(const at::Tensor& x, const at::Tensor& w) {
  const auto last = x.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
  const bool narrow = x.scalar_type() != at::kDouble && w.scalar_type() != at::kDouble;
  const bool is_last = x.suggest_memory_format() == last || w.suggest_memory_format() == last;
  return narrow && (x.dim() == 4 || x.dim() == 5) && is_last ? last : at::MemoryFormat::Contiguous;
}
at::Tensor convolution(const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& b, c10::SymIntArrayRef stride_, c10::SymIntArrayRef padding_, c10::SymIntArrayRef dilation_, bool transposed, c10::SymIntArrayRef output_padding_, c10::SymInt groups_) {
  auto v = [](c10::SymIntArrayRef s) { return C10_AS_INTARRAYREF_SLOW(s).vec(); };
  auto stride = v(stride_), padding = v(padding_), dilation = v(dilation_), output_padding = v(output_padding_);
  auto groups = groups_.expect_int();
  const int device = x.device().index();
  auto mb = b && b->defined() ? std::optional<at::Tensor>(meta_of(*b)) : std::nullopt;
  auto meta = at::convolution(meta_of(x), meta_of(w), mb, stride, padding, dilation, transposed, output_padding, groups);
  auto out = empty_like_meta(meta.contiguous(layout_of_convolution(x, w)), device);
  std::optional<Raw> bias;
  if (mb) bias = raw_of(*b);
  OnDevice on(device);
  { std::lock_guard<std::mutex> l(g_names_m); ++g_async_ops["aten::convolution"]; }
  launch(device, [=, x = raw_of(x), w = raw_of(w), out = raw_of(out)] {
    out.tensor().copy_(at::convolution(x.tensor(), w.tensor(), bias ? std::optional<at::Tensor>(bias->tensor()) : std::nullopt, stride, padding, dilation, transposed, output_padding, groups));
  });
  return out;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  // Composites elsewhere, of other kernels than the CPU's own: as one kernel they give the CPU's bits.
  for (const char* name : {"native_layer_norm", "native_group_norm", "_fused_rms_norm", "native_batch_norm", "embedding"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("unfold", unfold);
  m.impl("resize_", resize_);
  m.impl("set_.source_Storage_storage_offset", set_source);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("record_stream", record_stream);
  m.impl("scaled_dot_product_attention", sdpa);
  m.impl("convolution_overrideable", convolution);
}

// ------------------------------------------------------------------ what torch asks of a backend
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kLag; }
  c10::Device exchangeDevice(c10::Device d) const override { auto before = getDevice(); setDevice(d); return before; }
  c10::Device getDevice() const override { return {kLag, static_cast<c10::DeviceIndex>(t_device)}; }
  void setDevice(c10::Device d) const override { if (d.index() >= 0) t_device = d.index(); }
  void uncheckedSetDevice(c10::Device d) const noexcept override { if (d.index() >= 0) t_device = d.index(); }
  c10::Stream getStream(c10::Device d) const override { int i = index_of(d); return make(i, t_stream[i]); }
  c10::Stream getDefaultStream(c10::Device d) const override { return make(index_of(d), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override { return getNewStream(d, 0); }
  c10::Stream getNewStream(c10::Device d, int) const override { int i = index_of(d); return make(i, new_lane(i)); }
  c10::Stream exchangeStream(c10::Stream s) const override {
    auto before = make(s.device_index(), t_stream[s.device_index()]);
    t_stream[s.device_index()] = s.id();
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  bool queryStream(const c10::Stream& s) const override { return lane(s.device_index(), s.id()).idle(); }
  void synchronizeStream(const c10::Stream& s) const override {
    ++g_host_syncs;
    lane(s.device_index(), s.id()).wait();
    check_error(s.device_index());
  }
  void synchronizeDevice(const c10::DeviceIndex d) const override { sync_device(d < 0 ? t_device : d); }
  void record(void** event, const c10::Stream& s, const c10::DeviceIndex, const c10::EventFlag flag) const override {
    auto*& made = *reinterpret_cast<Event**>(event);
    if (made == nullptr) made = new Event{nullptr, flag == c10::EventFlag::BACKEND_DEFAULT, s.device_index()};
    TORCH_CHECK(made->device == s.device_index(), "event of device ", made->device, " recorded on a stream of device ", static_cast<int>(s.device_index()));
    auto mark = made->mark = std::make_shared<Mark>();
    lane(s.device_index(), s.id()).submit([mark] {
      if (auto us = g_event_delay_us.load(); us > 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
      mark->set();
    }, false);
  }
  void block(void* event, const c10::Stream& s) const override {
    auto* e = static_cast<Event*>(event);
    if (e == nullptr || e->mark == nullptr) return;
    lane(s.device_index(), s.id()).submit([mark = e->mark] { mark->wait(); }, false);
  }
  bool queryEvent(void* event) const override {
    auto* e = static_cast<Event*>(event);
    return e == nullptr || e->mark == nullptr || e->mark->ready();
  }
  void synchronizeEvent(void* event) const override {
    auto* e = static_cast<Event*>(event);
    if (e == nullptr || e->mark == nullptr) return;
    ++g_host_syncs;
    e->mark->wait();
    check_error(e->device);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
  double elapsedTime(void* a, void* b, const c10::DeviceIndex) const override {  // milliseconds, float32, as CUDA's
    auto *x = static_cast<Event*>(a), *y = static_cast<Event*>(b);
    TORCH_CHECK(x && y && x->mark && y->mark, "Both events must be recorded before calculating elapsed time.");
    TORCH_CHECK(x->timing && y->timing, "Both events must be created with argument 'enable_timing=True'.");
    TORCH_CHECK(x->mark->ready() && y->mark->ready(), "Both events must be completed before calculating elapsed time.");
    TORCH_CHECK(x->device == y->device, "events of two devices have no time in common");
    return static_cast<float>(std::chrono::duration<double, std::milli>(y->mark->when - x->mark->when).count());
  }
  static c10::Stream make(int d, int64_t id) { return c10::Stream(c10::Stream::UNSAFE, c10::Device(kLag, d), id); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(c10::DeviceIndex d) const override { t_device = d; }
  c10::DeviceIndex getCurrentDevice() const override { return t_device; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex d) const override { auto b = t_device; t_device = d; return b; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex d) const override { return exchangeDevice(d); }
  bool isPinnedPtr(const void* p) const override { return is_pinned(p); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &g_pinned_allocator; }
  c10::Device getDeviceFromPtr(void*) const override { return {kLag, static_cast<c10::DeviceIndex>(t_device)}; }
};

}  // namespace

namespace py = pybind11;
PYBIND11_MODULE(_C, m) {
  at::SetAllocator(kLag, &g_allocator);
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  using gone = py::call_guard<py::gil_scoped_release>;
  m.def("device_count", [] { return kDevices; });
  m.def("current_device", [] { return t_device; });
  m.def("set_device", [](int d) { TORCH_CHECK(d >= 0 && d < kDevices, "invalid device ordinal ", d); t_device = d; });
  m.def("current_stream_id", [](int d) { return t_stream[d]; });
  m.def("set_stream", [](int d, int64_t id) { auto b = t_stream[d]; t_stream[d] = id; return b; });
  m.def("new_stream", &new_lane);
  m.def("synchronize", [](int d) { ++g_host_syncs; sync_device(d); }, gone());
  m.def("synchronize_stream", [](int d, int64_t id) { ++g_host_syncs; lane(d, id).wait(); check_error(d); }, gone());
  m.def("set_delay", [](int64_t us) { g_delay_us = us; });
  m.def("set_stream_delay", [](int d, int64_t id, int64_t us) { lane(d, id).delay_us = us; });
  m.def("set_jitter", [](bool on) { g_jitter = on; });
  m.def("set_blocking", [](bool on) { g_blocking = on; });
  m.def("set_poison", [](bool on) { g_poison = on; });
  m.def("set_pageable_async", [](bool on) { g_pageable_async = on; });
  m.def("set_memory_limit", [](int64_t n) { g_alloc_limit = n; });
  m.def("fail_after", [](int64_t n) { g_fail_after = n; });
  m.def("fail_on_side_streams", [](bool on) { g_fail_side = on; });
  m.def("set_side_delay", [](int64_t us) { g_side_delay_us = us; });
  m.def("event_seconds", [](uintptr_t event_id) {  // when a torch.Event happened, on time.monotonic()'s clock
    auto mark = reinterpret_cast<Event*>(event_id)->mark;
    std::lock_guard<std::mutex> l(mark->m);
    return std::chrono::duration<double>(mark->when.time_since_epoch()).count();
  });
  m.def("set_event_delay", [](int64_t us) { g_event_delay_us = us; });
  m.def("latch_error", [](const std::string& what) { t_last_error = what; });
  m.def("clear_last_error", [] { t_last_error.clear(); });
  m.def("clear_error", [] { std::lock_guard<std::mutex> l(g_error_m); for (auto& e : g_error) e.clear(); });
  m.def("memory_allocated", [](int d) { return g_live[d].load(); });
  m.def("max_memory_allocated", [](int d) { return g_peak[d].load(); });
  m.def("reset_peak", [](int d) { g_peak[d] = g_live[d].load(); });
  m.def("host_register", &host_register);
  m.def("host_unregister", &host_unregister);
  m.def("is_pinned", [](uintptr_t p, size_t n) { return is_pinned(reinterpret_cast<void*>(p), n); });
  m.def("pinned_ranges", [] { std::lock_guard<std::mutex> l(g_pinned_m); py::dict d; for (auto& [p, n] : g_pinned) d[py::int_(p)] = n; return d; });
  m.def("stats", [] {
    py::dict d, s, a;
    d["launched"] = g_launched.load(); d["waits"] = g_syncs.load(); d["host_syncs"] = g_host_syncs.load();
    std::lock_guard<std::mutex> l(g_names_m);
    for (auto& [k, v] : g_sync_ops) s[py::str(k)] = v;
    for (auto& [k, v] : g_async_ops) a[py::str(k)] = v;
    d["sync_ops"] = s; d["async_ops"] = a;
    return d;
  });
}
