package postgresql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// session is a connection to a server (PostgreSQL, chapter 55). It uses only pgx's messages: all of
// pgx would add TLS, password files, environment variables that change the address, and 25 % to the
// program's size.
type session struct {
	conn net.Conn
	*pgproto3.Frontend
	stop func() bool
}

// login opens a session with a database. The server must authenticate the user through the socket
// (peer). The session ends with ctx.
func login(ctx context.Context, conn net.Conn, user, database string) (*session, error) {
	s := &session{conn: conn, Frontend: pgproto3.NewFrontend(conn, conn)}
	s.SetMaxBodyLen(maxAnswer)
	s.stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	s.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersionNumber, Parameters: map[string]string{
		"user": user, "database": database, "application_name": "fettle", "client_encoding": "UTF8",
	}})
	if _, err := s.finish(); err != nil {
		s.Close()
		return nil, fmt.Errorf("user %s: %w", user, err)
	}
	return s, nil
}

// maxAnswer is the size limit of a message, in bytes.
const maxAnswer = 8 << 20

// Close ends the session.
func (s *session) Close() {
	s.Send(&pgproto3.Terminate{})
	_ = s.Flush()
	s.stop()
	s.conn.Close()
}

// one runs a read-only statement, and returns one text.
func (s *session) one(sql string) (string, error) {
	s.Send(&pgproto3.Query{String: "BEGIN READ ONLY; SET LOCAL statement_timeout = '4s'; " + sql + "; COMMIT"})
	rows, err := s.finish()
	if err != nil {
		s.Send(&pgproto3.Query{String: "ROLLBACK"})
		_, _ = s.finish()
		return "", err
	}
	if len(rows) != 1 {
		return "", fmt.Errorf("%d rows, want one", len(rows))
	}
	return rows[0], nil
}

// finish sends the buffered messages and returns the rows, once the server is ready again.
func (s *session) finish() (rows []string, err error) {
	if err := s.Flush(); err != nil {
		return nil, err
	}
	for {
		message, rerr := s.Receive()
		if rerr != nil {
			return nil, errors.Join(err, rerr)
		}
		switch m := message.(type) {
		case *pgproto3.ReadyForQuery:
			return rows, err
		case *pgproto3.ErrorResponse:
			err = errors.Join(err, errors.New(m.Message))
			if m.Severity == "FATAL" || m.Severity == "PANIC" {
				return nil, err
			}
		case *pgproto3.DataRow:
			if len(m.Values) == 1 && m.Values[0] != nil {
				rows = append(rows, string(m.Values[0]))
			}
		case *pgproto3.AuthenticationOk, *pgproto3.BackendKeyData, *pgproto3.ParameterStatus, *pgproto3.NoticeResponse,
			*pgproto3.RowDescription, *pgproto3.CommandComplete, *pgproto3.EmptyQueryResponse:
		default:
			return nil, fmt.Errorf("the server requires a password of this user (pg_hba.conf has no peer entry): %T", m)
		}
	}
}
