package natsgate

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
)

func TestParseSettlement(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) settlement { return settlement{verb: verbNak, delay: &d} }
	for data, want := range map[string]settlement{
		"+ACK":                       {verb: verbAck},
		"+ACK\n":                     {verb: verbAck},
		" +ACK ":                     {verb: verbAck},
		"+WPI":                       {verb: verbWork},
		"+TERM":                      {verb: verbTerm},
		"+TERM  no such order ":      {verb: verbTerm, reason: "no such order"},
		"-NAK":                       {verb: verbNak},
		"-NAK {}":                    {verb: verbNak},
		`-NAK {"delay":"5s"}`:        after(5 * time.Second),
		`-NAK { "delay" : "0s" }`:    after(0),
		`-NAK {"delay": 5000000000}`: after(5 * time.Second),
		`-NAK {"delay":5e9}`:         after(5 * time.Second),
		`-NAK {"delay":0}`:           after(0),
		"-NAK 5s":                    after(5 * time.Second),
		`-NAK {"attempt":"keep"}`:    {verb: verbNak, keep: true},

		`-NAK {"delay":"0s","attempt":"keep"}`: {verb: verbNak, delay: new(time.Duration(0)), keep: true},
	} {
		got, err := parseSettlement([]byte(data))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(settlement{})); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", data, err, diff)
		}
	}
	for _, data := range []string{
		"", " ", "ACK", "+ack", "+NXT", "+OK", "+ACKX", "+ACK +ACK", "+WPI 5s", "+TERMINATE", "-NAK{}", "\x00", "\xff",
		"-NAK soon", "-NAK -5s", "-NAK 5", "-NAK []", `-NAK {"delay":"5s"`, `-NAK {"delay":"5s"}}`, `-NAK {"delay":"5s"} {}`,
		`-NAK {"delay":""}`, `-NAK {"delay":"-5s"}`, `-NAK {"delay":-1}`, `-NAK {"delay":1e300}`, `-NAK {"delay":null}`,
		`-NAK {"delay":true}`, `-NAK {"delay":["5s"]}`, `-NAK {"delay":"5s","reason":"x"}`, `-NAK "5s"`, `-NAK {"delay":"5s","delay":"6s"}`,
		`-NAK {"attempt":"use"}`, `-NAK {"attempt":true}`, `-NAK {"attempt":"keep","delay":"-1s"}`, "-NAK keep",
	} {
		if got, err := parseSettlement([]byte(data)); !errors.Is(err, notify.ErrInvalid) {
			t.Errorf("%q is taken for %+v, %v", data, got, err)
		}
	}
}
