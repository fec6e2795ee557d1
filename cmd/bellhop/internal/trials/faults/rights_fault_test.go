package faults_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// The crew uses Redis as a user with the least rights; the harness has all of them.
const user, password = "bellhop", "secret"

// userArguments are those of a redis-server that knows the user.
func userArguments() []string {
	return append([]string{"--user", user, "on", ">" + password}, rights()...)
}

func rights() []string { return strings.Fields(store.Rights(notify.DefaultPrefix)) }

// rightsFaults take rights of the user away, which are given back.
var rightsFaults = []fault{
	{"PUBLISH refused", onRedis, refuse("publish"), 200 * time.Millisecond, 2 * time.Second},
	{"channels refused", onRedis, commands{setUser("resetchannels")}.healed(setUser(channels()...)), 200 * time.Millisecond, 2 * time.Second},
	{"ZADD refused", onRedis, refuse("zadd"), 200 * time.Millisecond, 2 * time.Second},
	{"HDEL refused", onRedis, refuse("hdel"), 200 * time.Millisecond, 2 * time.Second},
	{"another refused", onRedis, refuseAnother, 200 * time.Millisecond, 2 * time.Second},
}

// refuse takes the right to a command away. Scripts that are under way then stop half way.
func refuse(command string) beginning {
	return func(ctx context.Context, w *world, v *victim, lasts time.Duration) (healing, error) {
		v.begun.Halfway = true
		return commands{setUser("-" + command)}.healed(setUser("+"+command))(ctx, w, v, lasts)
	}
}

// setUser is the command that changes what the user may do.
func setUser(rules ...string) string {
	return "ACL SETUSER " + user + " " + strings.Join(rules, " ")
}

// channels are the rules that let the user publish and subscribe.
func channels() (all []string) {
	for _, rule := range rights() {
		if strings.HasPrefix(rule, "&") {
			all = append(all, rule)
		}
	}
	return all
}

// refuseAnother takes the right to any of the commands away, which the plan of the round fixes.
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
