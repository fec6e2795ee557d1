package history

import "slices"

// Final is the contents of Redis at the end, when everything was stopped. A member is TOPIC:ID.
type Final struct {
	Now int64 // Redis's clock, Unix ms; zero: Overdue is not checked

	Heads      map[string]int64            // topic → due ms of its earliest scheduled message
	Scheduled  map[string]map[string]int64 // topic → member → due ms
	ReadySet   map[string]int64            // topic → due ms, its score in the index of ready topics
	Ready      map[string]map[string]int64 // topic → member → due ms
	Blocked    map[string]map[string]int64 // topic → member → due ms
	Leased     map[string]int64            // member → end of the lease in us
	Dead       map[string]map[string]int64 // topic → member → time of death in ms
	Broadcasts map[string]int64            // member → due ms, of broadcasts to come

	Done     map[string]string // member → result, of those that were acknowledged and are kept
	Records  []string          // members
	Versions map[string]string // member → version in its body, if it has one
	Next     map[string]string // member → version of its successor
	Dropped  map[string]int64  // topic → its counter of dropped messages
	Attempts map[string]int64  // member → attempts used up
	Expiries map[string]int64  // member → expiry ms
	Grouped  []string          // members of groups
	Deaths   []string          // members that have a reason
	Leases   map[string]int64  // topic → its counter of leased messages
	Waiting  map[string]int64  // topic → its counter of broadcasts to come

	Logs    []Entry          // sent broadcasts that are kept
	Trimmed map[string]int64 // topic → position up to which its log was trimmed
	Streams bool             // there was a JetStream stream all the time; Store records its contents

	Archive bool     // there was an archive all the time; Archive records its contents
	Acked   []string // topics of which it is to hold what was acknowledged, too

	Foreign []string // keys under the prefix that are not Bellhop's
}

// An Entry is a broadcast in a log.
type Entry struct {
	Topic, ID string
	Position  int64
}

// places returns the places of each member: "scheduled", "ready" and so on.
func (f *Final) places() map[string][]string {
	places := make(map[string][]string)
	add := func(name string, members map[string]int64) {
		for member := range members {
			places[member] = append(places[member], name)
		}
	}
	for name, topics := range map[string]map[string]map[string]int64{"scheduled": f.Scheduled, "ready": f.Ready, "blocked": f.Blocked, "dead": f.Dead} {
		for _, members := range topics {
			add(name, members)
		}
	}
	add("leased", f.Leased)
	add("broadcasts", f.Broadcasts)
	for _, where := range places {
		slices.Sort(where)
	}
	return places
}
