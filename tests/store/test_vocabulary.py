import torch
from conftest import VOCABULARY, make_model

from unmask.store.vocabulary import MASK_TOKEN, add_mask_token, embedding_rows, end_token_ids


def test_a_full_vocabulary_grows_by_one(tokenizer):
    model = make_model(vocab_size=VOCABULARY)
    before = model.get_input_embeddings().weight.clone()
    assert add_mask_token(model, tokenizer) == VOCABULARY
    assert embedding_rows(model) == VOCABULARY + 1
    after = model.get_input_embeddings().weight
    assert torch.equal(after[:-1], before)
    torch.testing.assert_close(after[-1], before.mean(0))


def test_an_unused_id_is_used(tokenizer):
    model = make_model(vocab_size=VOCABULARY + 8)
    assert add_mask_token(model, tokenizer) == VOCABULARY
    assert embedding_rows(model) == VOCABULARY + 8


def test_adding_twice_changes_nothing(tokenizer):
    model = make_model(vocab_size=VOCABULARY)
    first = add_mask_token(model, tokenizer)
    with torch.no_grad():
        model.get_input_embeddings().weight[first] = 7.0
    assert add_mask_token(model, tokenizer) == first
    assert model.get_input_embeddings().weight[first].eq(7.0).all()


def test_tied_embeddings_stay_tied(tokenizer):
    model = make_model(vocab_size=VOCABULARY, tie_word_embeddings=True)
    add_mask_token(model, tokenizer)
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight


def test_end_tokens_come_from_config_and_tokenizer(tokenizer):
    model = make_model(vocab_size=VOCABULARY)
    model.generation_config.eos_token_id = [4, 5]
    assert end_token_ids(model, tokenizer) == {4, 5, tokenizer.eos_token_id}


def test_the_mask_token_is_one_token(tokenizer):
    mask = add_mask_token(make_model(vocab_size=VOCABULARY), tokenizer)
    assert tokenizer(f"a{MASK_TOKEN}b")["input_ids"][1] == mask
