// Judges one TDX quote with google/go-tdx-guest: chain, collateral, revocation lists, as that library does it.
//
// Standard input is one JSON object: the quote, the time, the root to trust, and what to answer for each address that
// the library fetches. Nothing is fetched from anywhere else. Exit codes: 0 accepted, 1 rejected (the reason is on
// standard output), 2 the input cannot be read.
package main

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/google/go-tdx-guest/verify"
)

type response struct {
	Header map[string][]string `json:"header"`
	Body   []byte              `json:"body"`
}

type question struct {
	Quote     []byte              `json:"quote"`
	Now       int64               `json:"now"`
	Root      []byte              `json:"root"`
	Responses map[string]response `json:"responses"`
}

// Get answers from the question alone.
func (q *question) Get(url string) (map[string][]string, []byte, error) {
	found, known := q.Responses[url]
	if !known {
		return nil, nil, fmt.Errorf("no response was given for %s", url)
	}
	return found.Header, found.Body, nil
}

func main() {
	asked := &question{}
	if err := json.NewDecoder(os.Stdin).Decode(asked); err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(asked.Root) {
		fmt.Println("the root is no certificate")
		os.Exit(2)
	}
	options := &verify.Options{
		GetCollateral:    true,
		CheckRevocations: true,
		Getter:           asked,
		Now:              time.Unix(asked.Now, 0),
		TrustedRoots:     roots,
	}
	if err := verify.RawTdxQuote(asked.Quote, options); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
