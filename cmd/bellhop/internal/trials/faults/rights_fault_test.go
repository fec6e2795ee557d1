package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// The crew uses Redis as a user with the least rights, and that to load functions; the harness has all rights.
const user, password = "bellhop", "secret"

// userArguments returns the arguments of a redis-server with that user of a store, and of those
// in other databases.
func userArguments(shards int, others ...int) []string {
	all := append([]string{"--user", user, "on", ">" + password}, strings.Fields(reach.Rights(script.DefaultPrefix, shards)+" +function|load")...)
	for _, number := range others {
		all = append(append(all, "+select"), channels(number)...)
	}
	return all
}

func rights() []string { return strings.Fields(reach.Rights(script.DefaultPrefix, 1)) }

// rightsFaults withdraw rights of the user. The heal restores them.
var rightsFaults = []fault{
	{"PUBLISH refused", onRedis, refuse("publish"), 200 * time.Millisecond, 2 * time.Second},
	{"channels refused", onRedis, commands{setUser("resetchannels")}.healed(setUser(append(channels(0), channels(neighbours)...)...)), 200 * time.Millisecond, 2 * time.Second},
	{"ZADD refused", onRedis, refuse("zadd"), 200 * time.Millisecond, 2 * time.Second},
	{"HDEL refused", onRedis, refuse("hdel"), 200 * time.Millisecond, 2 * time.Second},
	{"functions refused", onRedis, commands{setUser("-function|load"), "FUNCTION FLUSH"}.healed(setUser("+function|load")), 200 * time.Millisecond, 2 * time.Second},
	{"another refused", onRedis, refuseAnother, 200 * time.Millisecond, 2 * time.Second},
}

// refuse withdraws the right to a command. Scripts under way then stop in the middle.
func refuse(command string) beginning {
	return func(ctx context.Context, w *world, v *victim, lasts time.Duration) (healing, error) {
		v.begun.Halfway = true
		return commands{setUser("-" + command)}.healed(setUser("+"+command))(ctx, w, v, lasts)
	}
}

// setUser returns the command that changes the user's rights.
func setUser(rules ...string) string {
	return "ACL SETUSER " + user + " " + strings.Join(rules, " ")
}

// channels returns the rules that let the user publish and subscribe in a database.
func channels(number int) (all []string) {
	for _, rule := range rights() {
		switch channel, is := strings.CutPrefix(rule, "&"); {
		case is && number == 0:
			all = append(all, rule)
		case is:
			all = append(all, fmt.Sprintf("&%d@%s", number, channel))
		}
	}
	return all
}

// refuseAnother withdraws the right to a random command, fixed by the plan of the round.
func refuseAnother(ctx context.Context, w *world, v *victim, lasts time.Duration) (healing, error) {
	var all []string
	for _, rule := range rights() {
		if command, ok := strings.CutPrefix(rule, "+"); ok {
			all = append(all, command)
		}
	}
	one := all[rand.New(rand.NewPCG(w.seed, uint64(lasts))).IntN(len(all))]
	v.begun.Error = "no right to " + one
	return refuse(one)(ctx, w, v, lasts)
}
