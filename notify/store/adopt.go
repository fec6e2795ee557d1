package store

import "context"

// AdoptSettings has the shard take over the settings for all topics.
func (s Shard) AdoptSettings(context.Context) error { return nil }
