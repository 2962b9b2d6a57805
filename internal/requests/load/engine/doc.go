// Package engine makes requests as load: it schedules and sends them over HTTP/1.1 and
// HTTP/2, measures what came of them, and evaluates thresholds.
package engine
