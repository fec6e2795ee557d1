package subscribers

// ListenerBound is how long the loop of a listener takes at most to come around.
const ListenerBound = listenerBound
