#include "worker/scheduling/fair_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"

namespace plimsoll::worker {
namespace {

using Party = FairQueue::Party;

Party* MemberOf(Party& party, const std::string& name) {
  const auto found = party.members.find(name);
  if (found != party.members.end()) return found->second.get();
  auto member = std::make_unique<Party>();
  member->parent = &party;
  return party.members.try_emplace(name, std::move(member)).first->second.get();
}

// Removes a party without requests, and then its parents that have none either.
void RemoveIfEmpty(Party* party) {
  while (party->n_members == 0 && party->parent != nullptr) {
    Party* parent = party->parent;
    std::erase_if(parent->members, [party](const auto& member) {
      return member.second.get() == party;
    });
    party = parent;
  }
}

// Null if there is none.
const Party* FindMember(const Party& party, const std::string& name) {
  const auto found = party.members.find(name);
  return found == party.members.end() ? nullptr : found->second.get();
}

// The members with more than `n` requests in the queue, the greediest first.
std::vector<const Party*> GreedyMembers(const Party& party, int64_t n) {
  std::vector<const Party*> members;
  for (const auto& [name, member] : party.members) {
    if (member->n_limited > n) members.push_back(member.get());
  }
  std::stable_sort(members.begin(), members.end(),
                   [](const Party* a, const Party* b) {
                     return a->n_limited > b->n_limited;
                   });
  return members;
}

// The newest request that may give way, of a tenant's lowest priority.
std::optional<int64_t> NewestOf(const Party& tenant) {
  for (const auto& [name, priority] : tenant.members) {
    const auto newest =
        std::find_if(priority->items.rbegin(), priority->items.rend(),
                     [](const Party::Item& i) { return i.how == Waits::kNew; });
    if (newest != priority->items.rend()) return newest->id;
  }
  return std::nullopt;
}

// The newest such request of the greediest tenant of a peer that has one.
std::optional<int64_t> NewestOfPeer(const Party& peer) {
  for (const Party* tenant : GreedyMembers(peer, 0)) {
    if (const auto newest = NewestOf(*tenant)) return newest;
  }
  return std::nullopt;
}

// The two parties that compete when two priorities do: their peers if those
// differ, otherwise their tenants, which may be one.
std::pair<const Party*, const Party*> Rivals(const Party& a, const Party& b) {
  const Party* tenant_a = a.parent;
  const Party* tenant_b = b.parent;
  if (tenant_a->parent == tenant_b->parent) return {tenant_a, tenant_b};
  return {tenant_a->parent, tenant_b->parent};
}

}  // namespace

FairQueue::Party* FairQueue::Join(int64_t id, const Claim& claim, State state) {
  const auto priority =
      static_cast<char>('0' + static_cast<int>(claim.priority));
  Party* party = &all_;
  // Without memory, no party without requests stays.
  absl::Cleanup undo = [&party] { RemoveIfEmpty(party); };
  party = MemberOf(*party, claim.peer);
  party = MemberOf(*party, claim.tenant);
  party = MemberOf(*party, std::string(1, priority));
  members_[id] = {party, state};
  std::move(undo).Cancel();
  party->cost = Weight(Priority::kHigh) / Weight(claim.priority);
  for (Party* p = party; p != nullptr; p = p->parent) ++p->n_members;
  return party;
}

FairQueue::Party* FairQueue::Push(int64_t id, const Claim& claim, Waits how) {
  Party* party = Join(id, claim, State::kStopped);
  absl::Cleanup undo = [this, id] { Remove(id); };
  const bool is_admitted = how == Waits::kAdmitted;
  AddWaiting(party, {id, how, /*is_limited=*/!is_admitted},
             is_admitted ? Place::kFirst : Place::kLast);
  std::move(undo).Cancel();
  members_.at(id).state = State::kWaits;
  return party;
}

FairQueue::Party* FairQueue::Run(int64_t id, const Claim& claim) {
  Party* party = Join(id, claim, State::kRuns);
  AddRunning(party, 1);
  return party;
}

void FairQueue::AddWaiting(Party* party, Party::Item item, Place place) {
  if (place == Place::kFirst) {
    party->items.push_front(item);
  } else {
    party->items.push_back(item);
  }
  for (Party* p = party; p != nullptr; p = p->parent) {
    if (item.is_limited) ++p->n_limited;
    if (p->n_waiting++ > 0 || p->parent == nullptr) continue;
    Party& all = *p->parent;
    if (all.n_waiting_members++ == 0) {
      for (const auto& [name, member] : all.members) member->served = 0;
      all.level = 0;
    }
    p->served = std::clamp(p->served, all.level, all.level + kMostDebt);
    p->turn = ++n_turns_;
  }
}

void FairQueue::RemoveWaiting(Party* party, int64_t id) {
  const auto item =
      std::find_if(party->items.begin(), party->items.end(),
                   [id](const Party::Item& i) { return i.id == id; });
  const bool is_limited = item->is_limited;
  party->items.erase(item);
  for (Party* p = party; p != nullptr; p = p->parent) {
    if (is_limited) --p->n_limited;
    if (--p->n_waiting == 0 && p->parent != nullptr) {
      --p->parent->n_waiting_members;
    }
  }
}

void FairQueue::AddRunning(Party* party, int64_t n) {
  for (Party* p = party; p != nullptr; p = p->parent) p->n_running += n;
}

const FairQueue::Party* FairQueue::Next(const Party& party) {
  const auto key = [](const Party& p) {
    const bool is_priority = p.members.empty();
    return std::tuple(is_priority ? 0 : p.n_running, p.served, p.n_running,
                      p.turn);
  };
  const Party* next = &party;
  while (!next->members.empty()) {
    const Party* first = nullptr;
    for (const auto& [name, member] : next->members) {
      if (member->n_waiting == 0) continue;
      if (first == nullptr || key(*member) < key(*first)) first = member.get();
    }
    if (first == nullptr) return nullptr;
    next = first;
  }
  return next->n_waiting == 0 ? nullptr : next;
}

std::optional<int64_t> FairQueue::Peek() const {
  const Party* next = Next(all_);
  if (next == nullptr) return std::nullopt;
  return next->items.front().id;
}

void FairQueue::ForNextOfPeers(
    absl::FunctionRef<bool(int64_t id)> visit) const {
  for (const auto& [name, peer] : all_.members) {
    const Party* next = Next(*peer);
    if (next != nullptr && visit(next->items.front().id)) return;
  }
}

std::optional<int64_t> FairQueue::Pop(int64_t n_tokens) {
  const std::optional<int64_t> id = Peek();
  if (!id) return std::nullopt;
  Member& member = members_.at(*id);
  Party* next = member.party;
  Charge(next, std::max(n_tokens, kLeastTokens), Level::kMoves);
  for (Party* p = next; p->parent != nullptr; p = p->parent) {
    p->turn = ++n_turns_;
  }
  RemoveWaiting(next, *id);
  AddRunning(next, 1);
  member.state = State::kRuns;
  return id;
}

void FairQueue::Stop(int64_t id) {
  Member& member = members_.at(id);
  AddRunning(member.party, -1);
  member.state = State::kStopped;
}

void FairQueue::PushAgain(int64_t id, Place place) {
  Member& member = members_.at(id);
  AddWaiting(member.party, {id, Waits::kToTheEnd, /*is_limited=*/false}, place);
  member.state = State::kWaits;
}

void FairQueue::Remove(int64_t id) {
  const auto member = members_.find(id);
  if (member == members_.end()) return;
  Party* party = member->second.party;
  if (member->second.state == State::kWaits) RemoveWaiting(party, id);
  if (member->second.state == State::kRuns) AddRunning(party, -1);
  members_.erase(member);
  for (Party* p = party; p != nullptr; p = p->parent) --p->n_members;
  RemoveIfEmpty(party);
}

void FairQueue::Charge(Party* party, int64_t n_tokens) {
  Charge(party, n_tokens, Level::kStays);
}

// A party that begins to wait starts at the level of those that wait. Only the
// party that is next moves that level: one that runs much and waits as well
// would carry it away from the others.
void FairQueue::Charge(Party* party, int64_t n_tokens, Level level) {
  for (Party* p = party; p->parent != nullptr; p = p->parent) {
    Party& all = *p->parent;
    const int64_t n_others = all.n_waiting_members - (p->n_waiting > 0 ? 1 : 0);
    if (n_others == 0) continue;
    p->served += n_tokens * p->cost;
    if (level == Level::kMoves)
      all.level += n_tokens * p->cost / (n_others + 1);
  }
}

FairQueue::WithoutSlot FairQueue::CountWithoutSlot(const Claim& claim) const {
  const auto count = [](const Party& party) {
    return party.n_members - party.n_running;
  };
  WithoutSlot counts;
  const Party* peer = FindMember(all_, claim.peer);
  if (peer == nullptr) return counts;
  counts.of_peer = count(*peer);
  const Party* tenant = FindMember(*peer, claim.tenant);
  if (tenant != nullptr) counts.of_tenant = count(*tenant);
  return counts;
}

bool FairQueue::IsOfPeer(int64_t id, const std::string& peer) const {
  return members_.at(id).party->parent->parent == FindMember(all_, peer);
}

std::optional<int64_t> FairQueue::GivesWay(const Claim& newcomer) const {
  const auto limited = [](const Party* own) {
    return own == nullptr ? 0 : own->n_limited;
  };
  const Party* own_peer = FindMember(all_, newcomer.peer);
  for (const Party* peer : GreedyMembers(all_, limited(own_peer) + 1)) {
    if (const auto newest = NewestOfPeer(*peer)) return newest;
  }
  // Its peer has its share: another tenant of it may have more than its own.
  if (own_peer == nullptr) return std::nullopt;
  const Party* own = FindMember(*own_peer, newcomer.tenant);
  for (const Party* tenant : GreedyMembers(*own_peer, limited(own) + 1)) {
    if (const auto newest = NewestOf(*tenant)) return newest;
  }
  return std::nullopt;
}

bool FairQueue::HoldsMore(const Party& a, const Party& b) {
  const auto [of_a, of_b] = Rivals(a, b);
  if (of_a == of_b) return false;
  return of_b->n_running == 0 || of_a->n_running > of_b->n_running + 1;
}

bool FairQueue::RunsMore(const Party& a, const Party& b) {
  const auto [of_a, of_b] = Rivals(a, b);
  return of_a->n_running > of_b->n_running;
}

}  // namespace plimsoll::worker
