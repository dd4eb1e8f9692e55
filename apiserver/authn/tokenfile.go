package authn

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// TokenFile is a list of tokens in a CSV file (--token-auth-file): token, user name, UID, and optionally groups, comma separated
// in quotes. It is read once, as upstream's.
type TokenFile struct {
	users     map[[sha256.Size]byte]*User // by digest, so that the time of a look-up says nothing about a token
	audiences []string
}

// NewTokenFile reads a file. audiences are the names of this server.
func NewTokenFile(file string, audiences []string) (*TokenFile, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	defer f.Close()
	t := &TokenFile{users: map[[sha256.Size]byte]*User{}, audiences: audiences}
	reader := csv.NewReader(f)
	reader.FieldsPerRecord = -1
	for {
		row, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read tokens %s: %w", file, err)
		}
		if len(row) < 3 {
			return nil, fmt.Errorf("token file '%s' must have at least 3 columns (token, user name, user uid), found %d", file, len(row))
		}
		if row[0] == "" {
			continue // nobody can show it
		}
		var groups []string
		if len(row) >= 4 && row[3] != "" {
			groups = strings.Split(row[3], ",")
		}
		t.users[sha256.Sum256([]byte(row[0]))] = &User{Name: row[1], UID: row[2], Groups: WithAuthenticated(groups)}
	}
}

// AuthenticateToken implements [Token].
func (t *TokenFile) AuthenticateToken(_ context.Context, token string, audiences []string) (*User, []string, error) {
	good := anyAudience(t.audiences, audiences)
	user := t.users[sha256.Sum256([]byte(token))]
	if user == nil || len(good) == 0 && audiences != nil {
		return nil, nil, ErrUnknownToken
	}
	return user, good, nil
}
