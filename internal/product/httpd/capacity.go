package httpd

import (
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
)

// limits are the process and thread limits of a multi-processing module.
type limits struct {
	serverLimit, threadLimit, threads, start int
	// asked is the configured MaxRequestWorkers, serves is the effective value.
	asked, serves int
}

// defaultsOf returns a module's default limits. The default MaxRequestWorkers of event and worker
// is 400 for any ThreadsPerChild and ServerLimit (server/mpm/*: DEFAULT_*, NAME_pre_config).
func defaultsOf(mpm string) limits {
	if mpm == "prefork" {
		return limits{serverLimit: 256, threadLimit: 1, threads: 1, start: 5, asked: 256}
	}
	return limits{serverLimit: 16, threadLimit: 64, threads: 25, start: 3, asked: 400}
}

// checked returns the limits as a module corrects them at start (NAME_check_config of httpd
// 2.4.71). httpd logs each correction: AH00174 to AH00183, AH00305 to AH00323, AH00497 to AH00520.
func (l limits) checked(mpm string) limits {
	mostServers, mostThreads := 20000, 100000 // MAX_SERVER_LIMIT, MAX_THREAD_LIMIT; both 20000 for worker
	switch mpm {
	case "prefork":
		mostServers, mostThreads = 200000, 1
	case "worker":
		mostThreads = 20000
	}
	within := func(n, most int) int { return max(1, min(n, most)) }
	l.serverLimit, l.threadLimit = within(l.serverLimit, mostServers), within(l.threadLimit, mostThreads)
	l.threads = within(l.threads, l.threadLimit)
	l.start = max(1, l.start)
	l.serves = max(l.asked, l.threads)
	l.serves = min(l.serves/l.threads, l.serverLimit) * l.threads
	return l
}

// limits returns the limits in the files, and the positions of those that the files set. unknown is
// the answer to use if they are unknown.
func (s settings) limits() (l limits, at map[string]string, unknown fact.Answer) {
	l, at = defaultsOf(s.mpm), map[string]string{}
	for _, of := range []struct {
		key string
		to  *int
	}{
		{"serverlimit", &l.serverLimit}, {"threadlimit", &l.threadLimit}, {"threadsperchild", &l.threads},
		{"startservers", &l.start}, {"maxrequestworkers", &l.asked},
	} {
		t, ok := s.value(of.key)
		if !ok || s.mpm == "prefork" && (of.key == "threadsperchild" || of.key == "threadlimit") {
			continue
		}
		n, isNumber := leading(t.value)
		switch {
		case t.unknown != "":
			return l, at, fact.Answer{Unknown: t.unknown, At: t.at.String()}
		case !isNumber:
			return l, at, fact.Answer{Unknown: fmt.Sprintf("%s: %q is not a number", name(of.key), t.value), At: t.at.String()}
		}
		*of.to, at[of.key] = n, t.at.String()
	}
	return l.checked(s.mpm), at, fact.Answer{}
}

// capacity answers an input from the module's limits.
func (s settings) capacity(input string) fact.Answer {
	l, at, unknown := s.limits()
	if unknown.Unknown != "" {
		return unknown
	}
	of := map[string]struct {
		value int
		keys  []string
	}{
		"server_limit": {l.serverLimit, []string{"serverlimit"}}, "start_servers": {l.start, []string{"startservers"}},
		"threads_per_child":   {l.threads, []string{"threadsperchild", "threadlimit"}},
		"max_request_workers": {l.asked, []string{"maxrequestworkers"}},
		"requests_limit":      {l.serves, []string{"maxrequestworkers", "threadsperchild", "threadlimit", "serverlimit"}},
	}[input]
	var places []string
	for _, key := range of.keys {
		if p := at[key]; p != "" {
			places = append(places, p)
		}
	}
	if len(places) == 0 {
		places = []string{"the default of the " + s.mpm + " module"}
	}
	return fact.Answer{Value: float64(of.value), At: places[0]}
}

// number answers with a directive's value in the files.
func number(t told, key string) fact.Answer {
	if t.unknown != "" {
		return fact.Answer{Unknown: t.unknown, At: t.at.String()}
	}
	p := parameter(key)
	n, err := p.Read(t.value)
	if err != nil {
		return fact.Answer{Unknown: p.Name + ": " + err.Error(), At: t.at.String()}
	}
	return fact.Answer{Value: n, At: t.at.String()}
}

// leading parses the whole number at the beginning of a text, like atoi, which httpd uses for these
// directives. ok is false for an unresolved variable.
func leading(text string) (int, bool) {
	digits := strings.TrimLeft(text, "+-")
	end := strings.IndexFunc(digits, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(digits)
	}
	if end == 0 || len(text)-len(digits) > 1 {
		return 0, !strings.Contains(text, "$")
	}
	n, err := strconv.ParseInt(text[:len(text)-len(digits)]+digits[:end], 10, 32)
	return int(n), err == nil
}
