from streamparse import Grouping, Topology
from words import CountWords, Output, Sentences, SplitSentence


class WordCount(Topology):
    sentences = Sentences.spec()
    split = SplitSentence.spec(inputs=[sentences], par=2)
    count = CountWords.spec(inputs={split: Grouping.fields("word")}, par=2)
    out = Output.spec(inputs={count: Grouping.GLOBAL})
