package api

import (
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// Keys are keys of a topic of which messages are blocked.
type Keys struct {
	Keys []BlockedKey `json:"keys" nullable:"false" doc:"the first ones"`
	All  int64        `json:"all" doc:"how many there are"`
}

// BlockedKey is a key of which messages are blocked.
type BlockedKey struct {
	Key     string     `json:"key" example:"acct-7"`
	Blocked int64      `json:"blocked" doc:"messages that are"`
	Oldest  *time.Time `json:"oldest,omitempty" doc:"when the first of these was due"`
	Behind  []Sitter   `json:"behind" nullable:"false" doc:"the messages for which these wait, at most 10"`
}

// Sitter is a message for which others of its key wait.
type Sitter struct {
	ID      string       `json:"id" example:"tx-8"`
	State   notify.State `json:"state,omitzero" enum:"ready,leased,scheduled,dead" doc:"scheduled: it was put off; dead: nothing of the key goes until it is requeued, purged or replaced; missing: it is gone, and the carrier will notice"`
	Worker  string       `json:"worker,omitempty" doc:"if leased, the name of the worker that has it; missing: unknown"`
	Claimed *time.Time   `json:"claimed,omitempty" doc:"if leased, since when; missing: unknown"`
}

// KeysOf returns keys in their JSON form, and how many there are.
func KeysOf(keys []store.Key, all int64) Keys {
	k := Keys{Keys: make([]BlockedKey, len(keys)), All: all}
	for i, one := range keys {
		k.Keys[i] = BlockedKey{Key: one.Key, Blocked: one.Blocked, Oldest: given(one.Oldest), Behind: SittersOf(one.Seats)}
	}
	return k
}

// SittersOf returns the messages on the seats of a key in their JSON form.
func SittersOf(seats []store.Seat) []Sitter {
	all := make([]Sitter, len(seats))
	for i, seat := range seats {
		all[i] = Sitter{ID: seat.ID, State: seat.State, Worker: seat.By, Claimed: given(seat.Since)}
	}
	return all
}

// Behind says in one line for which message the blocked ones of a key wait. Ago tells how long
// ago it was claimed.
func Behind(seats []Sitter, ago func(time.Time) string) string {
	if len(seats) == 0 {
		return ""
	}
	one := seats[0]
	text := one.ID + ", " + one.State.String()
	switch {
	case one.State == 0:
		text = one.ID + ", gone"
	case one.State == notify.Scheduled:
		text = one.ID + ", put off"
	case one.State == notify.Dead:
		text += ", bars the key"
	case one.Worker != "":
		text += " by " + one.Worker
	}
	if one.Claimed != nil {
		text += " for " + ago(*one.Claimed)
	}
	if len(seats) > 1 {
		text += fmt.Sprintf(", and %d more", len(seats)-1)
	}
	return text
}
