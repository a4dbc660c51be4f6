/* A server that knows the truth: an OpenAI-compatible stream whose every token is
 * written on time, alone, and noted down with the instant of its write.
 *
 *   truth_server [--port N] [--core N] [--ttft-us N] [--itl-us N] [--tls CERT KEY]
 *
 * It says {"port": N} on its output once it listens on loopback, and then obeys the
 * lines of its input: "log PATH" notes requests into PATH, "close" ends that and
 * answers with one line of counts, the end of input ends the server. A request may
 * ask for other timings by the header fields x-ttft-us and x-itl-us.
 *
 * The log, in the machine's byte order, for each request that ended: struct noted,
 * then its tokens' instants. All instants are CLOCK_MONOTONIC ns; a request's is
 * taken right after the read that completed it, a token's right before its write.
 *
 * One thread, level-triggered epoll, one timerfd. Built by tests/perf/truth.py;
 * -DTRUTH_TLS adds TLS through OpenSSL.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#ifdef TRUTH_TLS
#include <openssl/ssl.h>
#endif

enum { ID_BYTES = 64, READ_BYTES = 16384, EVENTS = 256, MAX_TOKENS = 1 << 20 };

struct noted {
  uint64_t read_ns;
  uint32_t status; /* 200; 499 where the client hung up first */
  uint32_t tokens;
  char id[ID_BYTES]; /* x-request-id, cut to fit, NUL-padded */
};

struct peer {
  int fd;
  bool writing; /* waits for the socket to take more */
  bool busy;    /* answers a request */
  bool chat, usage;
  bool shaken; /* the TLS handshake is over */
  char *in;
  size_t in_len, in_cap;
  char *out;
  size_t out_at, out_len, out_cap;
  struct noted note;
  uint64_t *token_ns;
  uint32_t wanted, room;
  uint64_t first_due_ns, itl_ns, serial;
  void *tls;
  char event[400]; /* the next token's, but for its word */
  size_t event_len, word_at;
  struct peer *gone; /* the next that is gone, until the turn is over */
};

struct due { /* a stream's next write; the heap holds copies to stay in the cache */
  uint64_t at_ns;
  struct peer *peer;
};

static struct {
  int epoll, timer, listener;
  uint64_t ttft_ns, itl_ns, armed_ns, serial;
  struct peer *gone;
  struct due *heap;
  size_t due, due_cap;
  FILE *log;
  uint64_t requests, tokens, broken, connections;
  void *tls;
  long created;
} S;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *grown(void *block, size_t bytes) {
  block = realloc(block, bytes);
  if (!block) {
    perror("truth_server");
    exit(1);
  }
  return block;
}

/* The queue of writes to come: a heap of four children a node. */

static void push(uint64_t at_ns, struct peer *peer) {
  if (S.due == S.due_cap)
    S.heap = grown(S.heap, (S.due_cap = S.due_cap ? 2 * S.due_cap : 1024) * sizeof *S.heap);
  size_t place = S.due++;
  for (; place; place = (place - 1) / 4) {
    struct due above = S.heap[(place - 1) / 4];
    if (above.at_ns <= at_ns) break;
    S.heap[place] = above;
  }
  S.heap[place] = (struct due){at_ns, peer};
}

static struct peer *pop(void) {
  struct peer *first = S.heap[0].peer;
  struct due last = S.heap[--S.due];
  size_t place = 0;
  for (;;) {
    size_t least = 4 * place + 1;
    if (least >= S.due) break;
    for (size_t child = least + 1; child < 4 * place + 5 && child < S.due; child++)
      if (S.heap[child].at_ns < S.heap[least].at_ns) least = child;
    if (last.at_ns <= S.heap[least].at_ns) break;
    S.heap[place] = S.heap[least];
    place = least;
  }
  S.heap[place] = last;
  return first;
}

static void forget(struct peer *peer) {
  for (size_t i = 0; i < S.due; i++)
    if (S.heap[i].peer == peer) S.heap[i].peer = NULL;
}

/* The socket, plain or under TLS. Both give -1 for "not now" and -2 for "gone". */

static ssize_t take(struct peer *peer, char *to, size_t room) {
#ifdef TRUTH_TLS
  if (peer->tls) {
    int got = SSL_read(peer->tls, to, (int)room);
    if (got > 0) return got;
    int why = SSL_get_error(peer->tls, got);
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? -1 : -2;
  }
#endif
  ssize_t got = recv(peer->fd, to, room, 0);
  return got > 0 ? got : got < 0 && errno == EAGAIN ? -1 : -2;
}

static ssize_t give(struct peer *peer, const char *from, size_t bytes) {
#ifdef TRUTH_TLS
  if (peer->tls) {
    int put = SSL_write(peer->tls, from, (int)bytes);
    if (put > 0) return put;
    int why = SSL_get_error(peer->tls, put);
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? -1 : -2;
  }
#endif
  ssize_t put = send(peer->fd, from, bytes, MSG_NOSIGNAL);
  return put >= 0 ? put : errno == EAGAIN ? -1 : -2;
}

static void watch(struct peer *peer, bool writing) {
  struct epoll_event event = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.ptr = peer};
  peer->writing = writing;
  epoll_ctl(S.epoll, EPOLL_CTL_MOD, peer->fd, &event);
}

/* Each returns false once the peer is gone. */

static bool flush(struct peer *peer) {
  while (peer->out_at < peer->out_len) {
    ssize_t put = give(peer, peer->out + peer->out_at, peer->out_len - peer->out_at);
    if (put == -2) return false;
    if (put == -1) {
      if (!peer->writing) watch(peer, true);
      return true;
    }
    peer->out_at += (size_t)put;
  }
  peer->out_at = peer->out_len = 0;
  if (peer->writing) watch(peer, false);
  return true;
}

static bool say(struct peer *peer, const char *bytes, size_t count) {
  if (!peer->out_len) {
    ssize_t put = give(peer, bytes, count);
    if (put == -2) return false;
    if (put > 0) bytes += put, count -= (size_t)put;
    if (!count) return true;
  }
  if (peer->out_len + count > peer->out_cap)
    peer->out = grown(peer->out, peer->out_cap = 2 * (peer->out_len + count));
  memcpy(peer->out + peer->out_len, bytes, count);
  peer->out_len += count;
  return flush(peer);
}

static void note(struct peer *peer, uint32_t status) {
  peer->busy = false;
  peer->note.status = status;
  S.tokens += peer->note.tokens;
  S.broken += status != 200;
  if (!S.log) return;
  fwrite(&peer->note, sizeof peer->note, 1, S.log);
  fwrite(peer->token_ns, sizeof *peer->token_ns, peer->note.tokens, S.log);
}

/* It may still be among the events of this turn: it is freed at the turn's end. */
static void part(struct peer *peer) {
  if (peer->busy) {
    forget(peer);
    note(peer, 499);
  }
#ifdef TRUTH_TLS
  if (peer->tls) SSL_free(peer->tls);
#endif
  close(peer->fd);
  peer->fd = -1;
  peer->gone = S.gone;
  S.gone = peer;
  S.connections--;
}

static void bury(void) {
  for (struct peer *peer; (peer = S.gone);) {
    S.gone = peer->gone;
    free(peer->in), free(peer->out), free(peer->token_ns), free(peer);
  }
}

/* What is said. */

static const char *const WORDS[] = {" oak", " elm", " fir", " ash", " yew", " bay", " fig", " ivy"};

static size_t chunk(char *to, const char *payload, int bytes) {
  return (size_t)sprintf(to, "%x\r\n%.*s\r\n", (unsigned)bytes, bytes, payload);
}

static int opening(const struct peer *peer, char *to) {
  const char *kind = peer->chat ? "chat.completion.chunk" : "text_completion";
  return sprintf(to, "data: {\"id\":\"cmpl-%llu\",\"object\":\"%s\",\"created\":%ld,\"model\":\"m\",",
                 (unsigned long long)peer->serial, kind, S.created);
}

/* All words are as long as each other, so that an event is written but once. */
static void word_event(struct peer *peer, const char *reason) {
  char event[360];
  int n = opening(peer, event);
  n += sprintf(event + n, peer->chat ? "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" :
                                       "\"choices\":[{\"index\":0,\"text\":\"");
  int word_at = n;
  n += sprintf(event + n, "WORD\"%s,\"logprobs\":null,\"finish_reason\":%s}]}\n\n", peer->chat ? "}" : "", reason);
  peer->event_len = chunk(peer->event, event, n);
  peer->word_at = peer->event_len - 2 - (size_t)(n - word_at);
}

static bool say_role(struct peer *peer) {
  char event[512], framed[600];
  int n = opening(peer, event);
  n += sprintf(event + n, "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                          "\"logprobs\":null,\"finish_reason\":null}]}\n\n");
  return say(peer, framed, chunk(framed, event, n));
}

static bool say_end(struct peer *peer) {
  char event[512], framed[700];
  size_t length = 0;
  if (peer->usage) {
    int n = opening(peer, event);
    n += sprintf(event + n, "\"choices\":[],\"usage\":{\"prompt_tokens\":16,\"total_tokens\":%u,"
                            "\"completion_tokens\":%u}}\n\n", 16 + peer->wanted, peer->wanted);
    length = chunk(framed, event, n);
  }
  length += chunk(framed + length, "data: [DONE]\n\n", 14);
  length += (size_t)sprintf(framed + length, "0\r\n\r\n");
  note(peer, 200);
  return say(peer, framed, length);
}

/* The next token is due. */
static bool go_on(struct peer *peer) {
  struct noted *note = &peer->note;
  if (!note->tokens) word_event(peer, "null");
  if (!note->tokens && peer->chat && !say_role(peer)) return false;
  if (note->tokens + 1 == peer->wanted) word_event(peer, "\"length\"");
  memcpy(peer->event + peer->word_at, WORDS[(peer->serial + note->tokens) % 8], 4);
  peer->token_ns[note->tokens++] = now_ns();
  if (!say(peer, peer->event, peer->event_len)) return false;
  if (note->tokens == peer->wanted) return say_end(peer);
  push(peer->first_due_ns + note->tokens * peer->itl_ns, peer);
  return true;
}

static bool say_whole(struct peer *peer, const char *status, const char *body) {
  char answer[1024];
  int n = snprintf(answer, sizeof answer, "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
                   "Content-Length: %zu\r\n\r\n%s", status, strlen(body), body);
  return say(peer, answer, (size_t)n);
}

/* What is heard. The buffer ends in NUL while it is looked at. */

static const char *field(const char *head, const char *name) {
  size_t length = strlen(name);
  for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
    if (!strncasecmp(line + 2, name, length)) {
      line += 2 + length;
      while (*line == ' ') line++;
      return line;
    }
  return NULL;
}

static const char *member(const char *body, const char *name) {
  const char *at = strstr(body, name);
  if (!at) return NULL;
  at += strlen(name);
  while (*at == ' ' || *at == ':') at++;
  return at;
}

static uint64_t asked_ns(const char *head, const char *name, uint64_t otherwise_ns) {
  const char *value = field(head, name);
  return value ? strtoull(value, NULL, 10) * 1000 : otherwise_ns;
}

static bool begin(struct peer *peer, const char *head, const char *body, uint64_t read_ns) {
  static const char HEAD[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                             "Cache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n";
  const char *value = member(body, "\"max_completion_tokens\"");
  if (!value) value = member(body, "\"max_tokens\"");
  unsigned long wanted = value ? strtoul(value, NULL, 10) : 16;
  value = member(body, "\"stream\"");
  if (!value || *value != 't')
    return say_whole(peer, "400 Bad Request", "{\"error\":{\"message\":\"it only streams\"}}");
  value = member(body, "\"include_usage\"");
  peer->usage = value && *value == 't';
  peer->wanted = wanted < 1 ? 1 : wanted > MAX_TOKENS ? MAX_TOKENS : (uint32_t)wanted;
  if (peer->wanted > peer->room)
    peer->token_ns = grown(peer->token_ns, (peer->room = peer->wanted) * sizeof *peer->token_ns);
  memset(&peer->note, 0, sizeof peer->note);
  peer->note.read_ns = read_ns;
  if ((value = field(head, "x-request-id:")))
    for (int i = 0; i < ID_BYTES - 1 && value[i] && value[i] != '\r'; i++) peer->note.id[i] = value[i];
  peer->serial = ++S.serial;
  peer->busy = true;
  peer->itl_ns = asked_ns(head, "x-itl-us:", S.itl_ns);
  peer->first_due_ns = read_ns + asked_ns(head, "x-ttft-us:", S.ttft_ns);
  push(peer->first_due_ns, peer);
  S.requests++;
  return say(peer, HEAD, sizeof HEAD - 1);
}

static bool answer(struct peer *peer, const char *head, const char *body, uint64_t read_ns) {
  peer->chat = !strncmp(head, "POST /v1/chat/completions ", 26);
  if (peer->chat || !strncmp(head, "POST /v1/completions ", 21)) return begin(peer, head, body, read_ns);
  if (!strncmp(head, "GET /v1/models", 14))
    return say_whole(peer, "200 OK", "{\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\","
                                     "\"created\":1,\"owned_by\":\"truth\",\"max_model_len\":131072}]}");
  if (!strncmp(head, "GET /health", 11)) return say_whole(peer, "200 OK", "{}");
  return say_whole(peer, "404 Not Found", "{\"error\":{\"message\":\"not found\"}}");
}

/* Take apart what has come; one request at a time is answered. */
static bool heed(struct peer *peer, uint64_t read_ns) {
  while (peer->in_len && !peer->busy) {
    peer->in[peer->in_len] = 0;
    char *body = strstr(peer->in, "\r\n\r\n");
    if (!body) return true;
    body[2] = 0; /* the head, its last line end included */
    body += 4;
    const char *length = field(peer->in, "content-length:");
    size_t whole = (size_t)(body - peer->in) + (length ? strtoul(length, NULL, 10) : 0);
    if (peer->in_len < whole) {
      body[-2] = '\r';
      return true;
    }
    char behind = peer->in[whole];
    peer->in[whole] = 0;
    bool here = answer(peer, peer->in, body, read_ns);
    peer->in[whole] = behind;
    memmove(peer->in, peer->in + whole, peer->in_len -= whole);
    if (!here) return false;
  }
  return true;
}

static bool hear(struct peer *peer) {
#ifdef TRUTH_TLS
  if (peer->tls && !peer->shaken) {
    int done = SSL_accept(peer->tls);
    if (done <= 0) {
      int why = SSL_get_error(peer->tls, done);
      return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
    }
    peer->shaken = true;
  }
#endif
  for (;;) {
    if (peer->in_cap - peer->in_len <= READ_BYTES)
      peer->in = grown(peer->in, peer->in_cap = 2 * peer->in_cap + 2 * READ_BYTES);
    ssize_t got = take(peer, peer->in + peer->in_len, READ_BYTES);
    if (got == -2) return false;
    if (got == -1) return true;
    uint64_t read_ns = now_ns();
    peer->in_len += (size_t)got;
    if (!heed(peer, read_ns)) return false;
    if (!peer->tls && got < READ_BYTES) return true;
  }
}

static void welcome(void) {
  int one = 1, fd;
  while ((fd = accept4(S.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct peer *peer = calloc(1, sizeof *peer);
    if (!peer) exit(1);
    peer->fd = fd;
#ifdef TRUTH_TLS
    if (S.tls) {
      peer->tls = SSL_new(S.tls);
      SSL_set_fd(peer->tls, fd);
      SSL_set_accept_state(peer->tls);
    }
#endif
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    epoll_ctl(S.epoll, EPOLL_CTL_ADD, fd, &event);
    S.connections++;
  }
}

/* One line of orders; false at the end of input. */
static bool obey(void) {
  static char line[4096];
  static size_t held;
  ssize_t got = read(0, line + held, sizeof line - 1 - held);
  if (got <= 0) return false;
  line[held += (size_t)got] = 0;
  for (char *end; (end = strchr(line, '\n'));) {
    *end = 0;
    if (S.log) fclose(S.log);
    S.log = NULL;
    if (!strncmp(line, "log ", 4)) {
      S.log = fopen(line + 4, "wb");
      if (S.log) setvbuf(S.log, NULL, _IOFBF, 1 << 18);
      S.requests = S.tokens = S.broken = 0;
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    printf("{\"requests\":%llu,\"tokens\":%llu,\"broken\":%llu,\"connections\":%llu,\"cpu_s\":%.6f}\n",
           (unsigned long long)S.requests, (unsigned long long)S.tokens, (unsigned long long)S.broken,
           (unsigned long long)S.connections, cpu_s);
    fflush(stdout);
    held -= (size_t)(end + 1 - line);
    memmove(line, end + 1, held + 1);
  }
  return true;
}

static void arm(void) {
  uint64_t at_ns = S.due ? S.heap[0].at_ns : 0;
  if (at_ns == S.armed_ns) return;
  struct itimerspec when = {.it_value = {(time_t)(at_ns / 1000000000u), (long)(at_ns % 1000000000u)}};
  timerfd_settime(S.timer, TFD_TIMER_ABSTIME, &when, NULL);
  S.armed_ns = at_ns;
}

static void write_what_is_due(void) {
  /* A few: a request that has come meanwhile must not wait for a hundred streams. */
  for (int left = 8; left && S.due && S.heap[0].at_ns <= now_ns(); left--) {
    struct peer *peer = pop();
    if (peer && !go_on(peer)) part(peer);
    else if (peer && !peer->busy && !heed(peer, now_ns())) part(peer);
  }
}

static void serve(void) {
  static char standing[3]; /* what an event is about, where it is no peer */
  struct epoll_event events[EVENTS];
  int others[] = {S.listener, S.timer, 0};
  for (int i = 0; i < 3; i++) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &standing[i]};
    epoll_ctl(S.epoll, EPOLL_CTL_ADD, others[i], &event);
  }
  for (;;) {
    arm();
    int ready = epoll_wait(S.epoll, events, EVENTS, -1);
    for (int i = 0; i < ready; i++) {
      struct peer *peer = events[i].data.ptr;
      uint64_t expired;
      if ((char *)peer == &standing[0]) welcome();
      else if ((char *)peer == &standing[1]) {
        if (read(S.timer, &expired, sizeof expired) > 0) S.armed_ns = 0;
      } else if ((char *)peer == &standing[2]) {
        if (!obey()) return;
      } else if (peer->fd < 0) continue;
      else if (((events[i].events & EPOLLOUT) && !flush(peer)) ||
                 ((events[i].events & ~(unsigned)EPOLLOUT) && !hear(peer))) part(peer);
    }
    write_what_is_due();
    bury();
  }
}

static void *tls_of(const char *certificate, const char *key) {
#ifdef TRUTH_TLS
  SSL_CTX *context = SSL_CTX_new(TLS_server_method());
  if (context && SSL_CTX_use_certificate_chain_file(context, certificate) == 1 &&
      SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1) {
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return context;
  }
#endif
  fprintf(stderr, "truth_server: no TLS with %s and %s\n", certificate, key);
  exit(2);
}

int main(int count, char **words) {
  int port = 0, core = -1, one = 1;
  S.ttft_ns = 20000000, S.itl_ns = 10000000, S.created = (long)time(NULL);
  for (int i = 1; i + 1 < count; i += 2) {
    const char *value = words[i + 1];
    if (!strcmp(words[i], "--port")) port = atoi(value);
    else if (!strcmp(words[i], "--core")) core = atoi(value);
    else if (!strcmp(words[i], "--ttft-us")) S.ttft_ns = strtoull(value, NULL, 10) * 1000;
    else if (!strcmp(words[i], "--itl-us")) S.itl_ns = strtoull(value, NULL, 10) * 1000;
    else if (!strcmp(words[i], "--tls") && i + 2 < count) S.tls = tls_of(value, words[++i + 1]);
    else return fprintf(stderr, "truth_server: what is %s?\n", words[i]), 2;
  }
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_TIMERSLACK, 1);
  if (core >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  S.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  setsockopt(S.listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  S.epoll = epoll_create1(EPOLL_CLOEXEC);
  S.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (bind(S.listener, (struct sockaddr *)&address, length) || listen(S.listener, 65535) ||
      getsockname(S.listener, (struct sockaddr *)&address, &length) || S.epoll < 0 || S.timer < 0) {
    perror("truth_server");
    return 1;
  }
  printf("{\"port\": %d}\n", ntohs(address.sin_port));
  fflush(stdout);
  serve();
  if (S.log) fclose(S.log);
  return 0;
}
