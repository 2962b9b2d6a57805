package logformat

import "bytes"

// maxSyslogPrefix is the maximum length of a syslog prefix, in bytes.
const maxSyslogPrefix = 512

// afterSyslog returns the start of the message in a line that a syslog daemon
// or client wrote, or -1:
//
//	<N>MESSAGE                            HAProxy's formats short and priority, sd-daemon(3)
//	<N>TIME MESSAGE                       HAProxy's format timed
//	[<N>]TIME [HOST] PROGRAM[PID]: MESSAGE  RFC 3164, in files of rsyslog, journalctl
//	<N>1 TIME HOST APP PID ID DATA MESSAGE  RFC 5424
//	PROGRAM[PID]: MESSAGE
func afterSyslog(line []byte) int {
	at := afterPriority(line)
	if at > 0 && bytes.HasPrefix(line[at:], []byte("1 ")) {
		if n := after5424(line, at+2); n > 0 {
			return n
		}
	}
	if n := afterISO(line[at:]); n > 0 {
		if tag := afterTag(line[at+n:]); tag > 0 {
			return at + n + tag
		}
		if at > 0 {
			return at + n
		}
		return -1
	}
	if n := afterStamp(line[at:]); n > 0 {
		if tag := afterTag(line[at+n:]); tag > 0 {
			return at + n + tag
		}
		return -1
	}
	if at > 0 {
		return at
	}
	return afterProgram(line[:min(len(line), maxSyslogPrefix)])
}

// afterProgram returns the position after "PROGRAM[PID]: ", or -1.
func afterProgram(line []byte) int {
	open := plainWordEnd(line)
	if open == 0 || open == len(line) || line[open] != '[' {
		return -1
	}
	end := digitsEnd(line, open+1)
	if _, ok := Int(line[open+1 : end]); !ok || !bytes.HasPrefix(line[end:], []byte("]: ")) {
		return -1
	}
	return end + len("]: ")
}

// afterStamp returns the position after a time such as "Nov 20 10:00:00 ", optionally with a
// fraction (journalctl -o short-precise), or 0.
func afterStamp(line []byte) int {
	if len(line) < 16 || line[3] != ' ' || line[6] != ' ' || line[9] != ':' || line[12] != ':' || month(line[:3]) == 0 {
		return 0
	}
	n := bytes.IndexByte(line[15:min(len(line), 24)], ' ')
	if n < 0 {
		return 0
	}
	return 15 + n + 1
}

// afterTag returns the position after "[HOST ]PROGRAM[PID]: ", or 0.
func afterTag(line []byte) int {
	at := 0
	for range 2 {
		n := bytes.IndexByte(line[at:min(len(line), at+maxAddress)], ' ')
		if n <= 0 {
			return 0
		}
		word := line[at : at+n]
		if at += n + 1; word[n-1] != ':' {
			continue
		}
		if open := bytes.IndexByte(word, '['); open >= 0 {
			word = word[:open+1]
		}
		if word = word[:len(word)-1]; plainWord(word) {
			return at
		}
		return 0
	}
	return 0
}

// afterPriority returns the position after <N>, or 0.
func afterPriority(head []byte) int {
	if len(head) < 3 || head[0] != '<' {
		return 0
	}
	end := bytes.IndexByte(head[:min(len(head), 5)], '>')
	if end < 0 {
		return 0
	}
	if _, ok := Int(head[1:end]); !ok {
		return 0
	}
	return end + 1
}

// after5424 returns the position after the header and structured data of RFC 5424 (6.2,
// 6.3), or 0. at is the position after the version: TIMESTAMP HOSTNAME APP-NAME PROCID
// MSGID [ID NAME="VALUE"...] MESSAGE. A ] in a value is escaped as \].
func after5424(line []byte, at int) int {
	for range 5 {
		n := bytes.IndexByte(line[at:min(len(line), at+maxSyslogPrefix)], ' ')
		if n <= 0 {
			return 0
		}
		at += n + 1
	}
	switch {
	case at < len(line) && line[at] == '-':
		at++
	case at < len(line) && line[at] == '[':
		for at < len(line) && line[at] == '[' {
			quoted := false
			for at++; ; at++ {
				if at >= len(line) {
					return 0
				}
				if c := line[at]; c == '\\' && quoted {
					at++
				} else if c == '"' {
					quoted = !quoted
				} else if c == ']' && !quoted {
					break
				}
			}
			at++
		}
	default:
		return 0
	}
	if at >= len(line) || line[at] != ' ' {
		return 0
	}
	at++
	return at + len(line[at:]) - len(bytes.TrimPrefix(line[at:], []byte("\xef\xbb\xbf")))
}
