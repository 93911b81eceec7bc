#include "redis/protocol/cluster_slots.hpp"

#include <algorithm>
#include <limits>

#include "redis/protocol/addresses.hpp"

namespace overlimit::redis::protocol {
namespace {

constexpr std::uint16_t kPolynomial = 0x1021;

constexpr std::uint16_t crc_of_byte(std::size_t byte) {
  auto crc = static_cast<std::uint32_t>(byte << 8U);
  for (int bit = 0; bit < 8; ++bit) crc = (crc << 1U) ^ ((crc & 0x8000U) != 0 ? kPolynomial : 0U);
  return static_cast<std::uint16_t>(crc);
}

constexpr std::array<std::uint16_t, 256> crc_table() {
  std::array<std::uint16_t, 256> table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) table[byte] = crc_of_byte(byte);
  return table;
}

constexpr std::array<std::uint16_t, 256> kCrc = crc_table();

std::uint16_t crc16(std::string_view text) noexcept {
  std::uint16_t crc = 0;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    crc = static_cast<std::uint16_t>((crc << 8U) ^ kCrc[(crc >> 8U) ^ byte]);
  }
  return crc;
}

std::string_view hashed_part(std::string_view key) noexcept {
  const std::size_t open = key.find('{');
  if (open == std::string_view::npos) return key;
  const std::size_t close = key.find('}', open);
  const bool is_tag = close != std::string_view::npos && close > open + 1;
  return is_tag ? key.substr(open + 1, close - open - 1) : key;
}

}  // namespace

Slot key_slot(std::string_view key) noexcept { return static_cast<Slot>(crc16(hashed_part(key)) % kSlots); }

namespace {

using Elements = std::span<const Reply>;

/// Start, end, master, replicas.
constexpr std::size_t kLeastOfRange = 3;
constexpr std::size_t kMostServers = 10'000;

bool is_number(const Reply& reply, std::int64_t least, std::int64_t most) {
  return reply.is_integer() && least <= reply.as_integer() && reply.as_integer() <= most;
}

bool is_range(const Reply& reply) {
  if (!reply.is_array() || reply.as_array().size() < kLeastOfRange) return false;
  const Elements range = reply.as_array();
  return is_number(range[0], 0, kSlots - 1) && is_number(range[1], range[0].as_integer(), kSlots - 1);
}

/// [host or nil, port, id, metadata], the latter two not in all versions.
bool is_server(const Reply& reply) {
  if (!reply.is_array() || reply.as_array().size() < 2) return false;
  const Elements server = reply.as_array();
  return (server[0].is_nil() || server[0].is_text()) &&
         is_number(server[1], 0, std::numeric_limits<std::uint16_t>::max());
}

std::optional<HostPort> server_address(Elements server, const HostPort& asked) {
  constexpr std::size_t kMetadata = 3;
  const auto port = static_cast<std::uint16_t>(server[1].as_integer());
  std::string_view host = server[0].is_nil() ? std::string_view() : server[0].as_text();
  if (host == "?" && server.size() > kMetadata) {
    // A node without the preferred name still has its "ip".
    const std::string_view ip = server[kMetadata].text_after("ip");
    if (!ip.empty()) host = ip;
  }
  return address_of(host, port, asked);
}

}  // namespace

std::optional<SlotMap> SlotMap::read(const Reply& reply, const HostPort& asked) {
  if (!reply.is_array()) return std::nullopt;
  SlotMap map;
  for (const Reply& range : reply.as_array()) {
    if (!map.add(range, asked)) return std::nullopt;
  }
  return map;
}

bool SlotMap::add(const Reply& range, const HostPort& asked) {
  if (!is_range(range)) return false;
  const Elements elements = range.as_array();
  const Elements servers = elements.subspan(2);
  if (!std::ranges::all_of(servers, is_server) || servers_.size() + servers.size() > kMostServers)
    return false;
  if (const std::optional<HostPort> master = server_address(servers[0].as_array(), asked)) {
    std::fill(owners_.begin() + elements[0].as_integer(), owners_.begin() + elements[1].as_integer() + 1,
              index_of(*master));
  }
  for (const Reply& replica : servers.subspan(1)) {
    if (const auto address = server_address(replica.as_array(), asked)) (void)index_of(*address);
  }
  return true;
}

SlotMap::Index SlotMap::index_of(const HostPort& server) {
  const auto known = std::ranges::find(servers_, server);
  if (known != servers_.end()) return static_cast<Index>(known - servers_.begin());
  servers_.push_back(server);
  return static_cast<Index>(servers_.size() - 1);
}

const HostPort* SlotMap::master_of(Slot slot) const noexcept {
  const Index owner = owners_[slot % kSlots];
  return owner == kNoServer ? nullptr : &servers_[owner];
}

std::set<HostPort> SlotMap::masters() const {
  std::set<HostPort> masters;
  const Index* last = nullptr;
  for (const Index& owner : owners_) {
    if (owner == kNoServer || (last != nullptr && *last == owner)) continue;
    masters.insert(servers_[owner]);
    last = &owner;
  }
  return masters;
}

bool SlotMap::agrees_with(const SlotMap& other) const {
  Index mine = kNoServer;
  Index theirs = kNoServer;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    if (owners_[slot] == mine && other.owners_[slot] == theirs) continue;
    mine = owners_[slot];
    theirs = other.owners_[slot];
    if ((mine == kNoServer) != (theirs == kNoServer)) return false;
    if (mine != kNoServer && servers_[mine] != other.servers_[theirs]) return false;
  }
  return true;
}

std::optional<Slot> SlotMap::first_gap() const {
  const auto gap = std::ranges::find(owners_, kNoServer);
  if (gap == owners_.end()) return std::nullopt;
  return static_cast<Slot>(gap - owners_.begin());
}

void SlotMap::complete(const SlotMap& other, const std::set<HostPort>& suspects) {
  Index mine = kNoServer;
  Index theirs = kNoServer;
  Index better = kNoServer;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    if (owners_[slot] != mine || other.owners_[slot] != theirs) {
      mine = owners_[slot];
      theirs = other.owners_[slot];
      better = better_of(mine, other, theirs, suspects);
    }
    owners_[slot] = better;
  }
}

SlotMap::Index SlotMap::better_of(Index mine, const SlotMap& other, Index theirs,
                                  const std::set<HostPort>& suspects) {
  if (theirs == kNoServer || servers_.size() >= kMostServers) return mine;
  const HostPort& offered = other.servers_[theirs];
  const bool is_better =
      mine == kNoServer || (suspects.contains(servers_[mine]) && !suspects.contains(offered));
  return is_better ? index_of(offered) : mine;
}

void SlotMap::learn(Slot slot, const HostPort& master) {
  if (servers_.size() < kMostServers) owners_[slot % kSlots] = index_of(master);
}

}  // namespace overlimit::redis::protocol
