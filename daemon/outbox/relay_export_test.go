package outbox

import "time"

// Hasten has relays sleep for ever, unless they are notified, and sets how often they raise the floor.
func Hasten(raise time.Duration) { fallback, raiseEach = time.Hour, raise }

// Looking is the statement of a look.
const Looking = looking
