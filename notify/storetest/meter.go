package storetest

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// A Meter is a hook of a store's client that counts the bytes of texts that scripts reply.
type Meter struct{ atomic.Int64 }

// DialHook does nothing.
func (*Meter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook does nothing.
func (*Meter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook counts.
func (m *Meter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if script, is := cmd.(*redis.Cmd); is {
			m.Add(textIn(script.Val()))
		}
		return err
	}
}

// textIn returns how many bytes of text are in a reply.
func textIn(reply any) (n int64) {
	switch reply := reply.(type) {
	case string:
		return int64(len(reply))
	case []any:
		for _, one := range reply {
			n += textIn(one)
		}
	}
	return n
}
