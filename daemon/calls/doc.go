// Package calls has the operations that a client may ask of a daemon: what each is given,
// who may ask for it, and what it does and answers. HTTP, NATS and the OpenAPI document
// offer what [Table] has, so an operation is written once, with its JSON. Package daemon/api has
// the JSON of messages and errors, which gateways use beside the calls, too.
//
// A gateway has calls of its own where the transports differ: to publish, claim, settle and
// listen, HTTP has bodies, polls and streams, and NATS has headers and subjects of replies. NATS
// has no call about several messages or topics that are named: a subject is the right to one
// topic, and a client of NATS sends its requests without waiting for the answers in between.
package calls
