package calls

import (
	"time"

	"github.com/bellhopd/bellhop/subscribers"
)

// ClaimOptions are the parameters of every claim.
type ClaimOptions struct {
	Max    int           `query:"max" minimum:"1" maximum:"500" default:"1" doc:"claim at most this many messages"`
	Lease  time.Duration `query:"lease" shortest:"100ms" longest:"24h" example:"30s" doc:"how long the messages are leased, 100ms to 24h; missing: the lease of the topic's settings"`
	MinAge time.Duration `query:"min_age" shortest:"0s" default:"0s" doc:"only messages that have been due for this long: those that no other worker claimed"`
	Ack    string        `query:"ack" without:"lease" enum:"now" doc:"now: the messages are acknowledged at once and have no receipt. So each is handed out at most once: one that is lost on its way, or whose handler fails, does not come again"`
	Worker string        `query:"worker" is:"worker" maxLength:"64" pattern:"^([!-,.-~][!-~]*|-[!-~]+)$" example:"shop-1" doc:"name of the worker that the claim is for, up to 64 printable characters without spaces: who inspects a message then reads who has it, and who had it when it failed, and the worker is among the workers; missing: that of the daemon"`
	Wait   time.Duration `query:"wait" shortest:"0s" longest:"5m" default:"0s" example:"30s" doc:"how long to wait for a message if there is none; at most 5m"`
}

// Options returns them as a claimer takes them.
func (o ClaimOptions) Options() subscribers.ClaimOptions {
	return subscribers.ClaimOptions{Max: o.Max, Lease: o.Lease, MinAge: o.MinAge, AckNow: o.Ack != "", Worker: o.Worker, Wait: o.Wait}
}
