/** Markdown to safe HTML, by marked and DOMPurify. Import it only when there is a text. */

import createDOMPurify from "dompurify";
import type { DirectiveResult } from "lit/directive.js";
import { guard } from "lit/directives/guard.js";
import { unsafeHTML } from "lit/directives/unsafe-html.js";
import { Marked, Renderer } from "marked";

const TAGS =
  "p br hr h4 strong em del code pre ul ol li blockquote a table thead tbody tr th td div";
const PLAIN_ATTRIBUTES = ["start", "align", "tabindex", "class"];
const LINK = /^(?:https?:\/\/|mailto:)/i;
/** Unlike CommonMark, accepts punctuation inside when a letter follows: `**“文字”**后`. */
const STRONG = /^\*\*(?=\S)([\s\S]+?)(?<=\S)\*\*(?!\*)/;

const ESCAPED: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", '"': "&quot;" };

function escaped(text: string): string {
  return text.replace(/[&<"]/g, (letter) => ESCAPED[letter] ?? "");
}

const marked = new Marked({
  breaks: true,
  extensions: [
    {
      name: "strong",
      level: "inline",
      start: (text) => text.indexOf("**"),
      tokenizer(text) {
        const found = STRONG.exec(text);
        if (!found?.[1]) return undefined;
        return { type: "strong", raw: found[0], tokens: this.lexer.inlineTokens(found[1]) };
      },
      renderer({ tokens }) {
        return `<strong>${this.parser.parseInline(tokens ?? [])}</strong>`;
      },
    },
  ],
  renderer: {
    // The message has an h3. Models skip levels.
    heading({ tokens }) {
      return `<h4>${this.parser.parseInline(tokens)}</h4>`;
    },
    code: ({ text }) => `<pre tabindex="0"><code>${escaped(text)}</code></pre>`,
    table(token) {
      return `<div class="table-box" tabindex="0">${Renderer.prototype.table.call(this, token)}</div>`;
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    // A picture from another server would show it who reads the answer.
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
    html({ text, block }) {
      if (/^<br\s*\/?>$/i.test(text.trim())) return "<br>";
      return block ? `<p>${escaped(text.trim())}</p>` : escaped(text);
    },
    // "3~5 days, 10~15 km" is not struck out.
    del({ raw, tokens }) {
      const inner = this.parser.parseInline(tokens);
      return raw.startsWith("~~") ? `<del>${inner}</del>` : `~${inner}~`;
    },
  },
});

const purify = createDOMPurify(window);
purify.addHook("afterSanitizeAttributes", (node) => {
  if (!node.hasAttribute("href")) return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

/** Blocks of a text, so that a growing answer changes only its last one. */
export function markdownBlocks(text: string): DirectiveResult[] {
  return marked
    .lexer(text)
    .map((token) =>
      guard([token.raw], () => unsafeHTML(sanitized(marked.parser([token]) as string))),
    );
}

function sanitized(unsafe: string): string {
  return purify.sanitize(unsafe, {
    ALLOWED_TAGS: TAGS.split(" "),
    ALLOWED_ATTR: ["href", ...PLAIN_ATTRIBUTES],
    ALLOWED_URI_REGEXP: LINK,
    ADD_URI_SAFE_ATTR: PLAIN_ATTRIBUTES,
  });
}
