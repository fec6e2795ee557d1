/** A duration such as "90s", "1h30m" or "1d". */
export type Duration = string;
/** A time in the format of RFC 3339. */
export type Time = string;

export interface PublishOptions {
  /** Names the message, so that a publish may be repeated; missing: one is made, and the publish is not repeated. */
  id?: string;
  /** What the message is about: of a key one message goes at a time. */
  key?: string;
  if_busy?: "wait" | "drop";
  delay?: Duration;
  due?: Time;
  zone?: string;
  spread?: Duration;
  ttl?: Duration;
  attempts?: number;
  lease?: Duration;
  try_timeout?: Duration;
  fail?: "bury" | "drop";
  late_after?: Duration;
  late?: "bury" | "drop";
  if_exists?: "refuse" | "keep" | "replace" | "debounce";
  max_wait?: Duration;
  then?: "after";
  unique_for?: Duration;
  /** The group that the message is in. */
  group?: string;
  /** The group after which it comes, TOPIC:GROUP. */
  after_group?: string;
  on_dead?: "stop" | "go";
  headers?: Record<string, string>;
  content_type?: string;
  /** An option of a newer daemon. */
  [newer: string]: unknown;
}

export interface Publication {
  topic: string;
  id: string;
  due?: Time;
  state?: string;
  outcome: string;
  previous_due?: Time;
}

export interface Attempt {
  ended: Time;
  reason?: string;
  took_ms?: number;
  worker?: string;
}

/** Text and bytes are sent as they are, all else as JSON. */
export type Body = string | Uint8Array | ArrayBuffer | object | number | boolean | null | undefined;

/** A message or a broadcast, with the fields of the wire. */
export class Message {
  constructor(fields: object);
  topic: string;
  id: string;
  attempt: number;
  due: Time;
  first_due?: Time;
  published: Time;
  late_ms: number;
  receipt: number;
  headers: Record<string, string>;
  history: Attempt[];
  key?: string;
  group?: string;
  fence?: number;
  content_type?: string;
  body?: string;
  body_base64?: string;
  /** Of a broadcast: since it, a listener resumes. */
  bookmark?: string;
  get text(): string;
  get bytes(): Buffer;
  json(): any;
}

/** What a listener missed: broadcasts of a topic that were removed before they were read. */
export class Gap {
  topic: string;
  after?: string;
  up_to?: string;
  bookmark: string;
}

/** Thrown by a handler: hand the message out again after a delay, which uses up no attempt. */
export class Later extends Error {
  constructor(delay: Duration);
  delay: Duration;
}
/** Thrown by a handler: never hand the message out again, and keep it among the dead letters with this reason. */
export class Bury extends Error {}
/** Thrown by wait: the message has not ended yet. */
export class Timeout extends Error {}
/** Thrown by wait: the message is dead, for the reason in message; info is what inspect answers. */
export class Died extends Error {
  info: Record<string, any>;
}
/** There was no answer: whether the call did something is unknown. */
export class Unanswered extends Error {}
/** What the daemon answered in place of what was asked for. */
export class Problem extends Error {
  status: number;
  type: string;
  title?: string;
  detail?: string;
  /** Each wrong field. */
  errors?: { in: string; name: string; detail: string }[];
}

export interface WorkOptions {
  /** How many messages are handled at a time; default 1. */
  concurrency?: number;
  /** How long a message stays with a worker that is gone; default "30s". */
  lease?: Duration;
  /** How long what the handler returns is kept as the result; missing: not at all. */
  keep?: Duration;
  /** Of several topics: those that are due first, or as they are listed. */
  order?: "oldest" | "listed";
  /** Only messages that nobody claimed for so long. */
  min_age?: Duration;
  /** How long stop waits for handlers; default "10s". */
  grace?: Duration;
  /** Is told what fails; default console.error. */
  onError?: (err: Error, message?: Message) => void;
}

export interface Worker {
  /** Claims nothing more, waits for handlers up to the grace, then aborts them and gives their messages back. */
  stop(): Promise<void>;
  /** Resolves when the worker has stopped, and rejects if the daemon refuses to let it claim. */
  readonly done: Promise<void>;
  /** Stops at the first SIGTERM or Ctrl-C, and waits for the end; a second one ends the process. */
  untilSignal(): Promise<void>;
}

export class Bellhop {
  /** url: default BELLHOP_URL, or http://127.0.0.1:8420. token: default BELLHOP_TOKEN. name: of its workers; default HOST-PID. */
  constructor(options?: { url?: string; token?: string; name?: string });
  readonly url: string;
  readonly name: string;
  publish(topic: string, body?: Body, options?: PublishOptions): Promise<Publication>;
  broadcast(topic: string, body?: Body, options?: PublishOptions): Promise<Publication>;
  inspect(topic: string, id: string): Promise<Record<string, any>>;
  cancel(topic: string, id: string, options?: { next?: boolean; stop?: boolean }): Promise<Record<string, any>>;
  reschedule(topic: string, id: string, options: { delay?: Duration; due?: Time; zone?: string }): Promise<Record<string, any>>;
  /** Waits for the end of a message, and returns the result that its handler left: text, or bytes that are not UTF-8. */
  wait(topic: string, id: string, options?: { timeout?: Duration; signal?: AbortSignal }): Promise<string | Buffer | undefined>;
  /** Handles the messages of a topic, or of up to 32. The signal is aborted where the work is not wanted any more. */
  work(topic: string | string[], handler: (message: Message, signal: AbortSignal) => unknown, options?: WorkOptions): Worker;
  /** Yields the broadcasts of the topics that a pattern names, and resumes where it was after a lost connection. */
  listen(pattern: string, options?: { since?: string; signal?: AbortSignal }): AsyncGenerator<Message | Gap, void>;
  /** Makes any call of /v1/openapi.json, once. */
  call(method: string, path: string, options?: { query?: Record<string, unknown>; body?: Body; headers?: Record<string, string> }): Promise<any>;
  /** Moves the clock of bellhop dev --clock manual, until all that becomes due meanwhile is handled. */
  advance(duration: Duration): Promise<Record<string, any>>;
}
